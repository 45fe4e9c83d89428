"""The command ``ugm``: replay a workload, compare configurations, validate them.

It needs the extra ``cli``; `main` says so where that is missing.
"""

from __future__ import annotations

import sys
from typing import Final

__all__ = ["main"]

#: What the extra ``cli`` installs.
_NEEDED: Final = frozenset(("click", "rich"))


def main() -> None:
    """Run the command with the arguments of the process."""
    try:
        from ugm.cli.commands import ugm  # noqa: PLC0415 - what it imports may be missing
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _NEEDED:
            raise
        sys.stderr.write(f"ugm: the command needs {missing}; install it with: pip install 'ugm[cli]'\n")
        sys.exit(2)
    ugm(prog_name="ugm")
