"""A process that leads a partition or stands by: ``python -m support.service_process PLACE LISTEN CONFIG READY``.

The configuration is a file. The file READY is created when the process leads or stands by. The process ends if its
standard input ends, so it never outlives a test.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from threading import Thread

from ugm import parse_config
from ugm.service import Service


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(0)


def _run(place: str, listen: str, config: str, ready: str) -> None:
    Thread(target=_end_with_parent, daemon=True).start()
    given = parse_config(Path(config).read_text("utf-8")).partition()
    Service(place, listen, config=given).run(Path(ready).touch)


if __name__ == "__main__":
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(process)d %(name)s %(message)s")
    _run(*sys.argv[1:5])
