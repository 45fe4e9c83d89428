"""New files that appear under their names when they are complete, so that an interrupted copy can be repeated."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from ugm.journal.file_use import sync_directory

__all__ = ["new_file"]


@contextmanager
def new_file(target: Path) -> Iterator[Path]:
    """Yield the path of a draft, which becomes a new file at the end of the block.

    Args:
        target: the path of the new file. No file may have it.

    Raises:
        OSError: there is such a file, or none can be created.
    """
    with TemporaryDirectory(prefix="ugm-backup-", dir=target.parent) as folder:
        draft = Path(folder, "copy")
        yield draft
        try:
            os.link(draft, target)
        except FileExistsError:
            raise
        except OSError:
            # Not every file system has hard links.
            draft.rename(target)
    sync_directory(target.parent)
