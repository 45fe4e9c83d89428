"""What the command ``ugm`` can do: ``simulate`` and ``validate``.

Exit statuses: 0 when all is well, 1 when a file has problems or a self-check found something, 2 for wrong usage.
Reports go to the standard output, progress and errors to the standard error.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal, cast, get_args

import click
from rich.console import Console

import ugm as package
from ugm import load_config
from ugm.cli.options import FieldList, Prefixes, Quantity
from ugm.cli.progress import watched
from ugm.errors import ConfigError, UgmError
from ugm.simulation import JobMapping, Report, parse_swf, simulate
from ugm.simulation.render import render

__all__ = ["ugm"]
