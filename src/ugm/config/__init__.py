"""Queue configurations in YAML: reading, validation and writing.

`load_config` and `parse_config` return a `SchedulerConfig`, or raise one `ugm.ConfigError` that lists every problem
with its line and column. The values themselves are defined in `ugm.configuration`.

A file is read in three steps: `ugm._documents` turns YAML into plain data, `ugm.config.assembly` builds the values,
and the rules of `ugm.config.validation` check them as a whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ugm._lazy import on_first_use
from ugm.config.text import Review, dump_config, load_config, parse_config, review_config, review_file
from ugm.configuration import scheduler
from ugm.configuration.scheduler import *  # noqa: F403 - its `__all__` has the public values

if TYPE_CHECKING:
    from ugm.config.export import Exported, LeftOut, export_config

__all__ = ["Exported", "LeftOut", "Review", "dump_config", "export_config", "load_config", "parse_config"]
__all__ += ["review_config", "review_file"]
__all__ += scheduler.__all__

_load, _names = on_first_use(__name__, {"ugm.config.export": "Exported LeftOut export_config"})


def __getattr__(name: str) -> object:
    return _load(name)


def __dir__() -> list[str]:
    return _names()
