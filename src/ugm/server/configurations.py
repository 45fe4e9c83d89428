"""The configuration that a server's partitions run under: in force, from its file, and from an upload.

A configuration is put in force as a whole or not at all: it is read, judged and compiled for every partition before the
first of them follows it. An upload is not written to the file; the next reload returns to what the file says.

Every reload of the file is logged: at level INFO when the file is in force, at WARNING when it was refused.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any, Final, NamedTuple, final

from ugm import ConfigError, Partition, Problem, UgmError
from ugm.config import PartitionConfig, QueueConfig, SchedulerConfig, dump_config, load_config, parse_config
from ugm.identity import ROOT
from ugm.partition import Changes, changes
from ugm.server.audit import AuditLog
from ugm.server.errors import ApiError

__all__ = ["Actor", "Configurations", "Outcome"]

_LOGGER: Final = logging.getLogger(__name__)


class Actor(NamedTuple):
    """Who changes the configuration."""

    #: The address of the client; ``local`` for a signal or the watch of the file.
    client: str
    #: ``operator``, ``signal`` or ``watch``.
    role: str


_PROGRAM: Final = Actor("local", "program")
_WATCH: Final = Actor("local", "watch")


class Outcome(NamedTuple):
    """How the last attempt to put a configuration in force ended."""

    #: Where it came from: ``start``, ``file`` or ``upload``.
    source: str
    #: In seconds since 1970.
    at: float
    #: Why it was refused; empty if it is in force.
    problems: tuple[Problem, ...] = ()


@final
class Configurations:
    """What may replace the configuration of several partitions.

    Args:
        partitions: by name, as in the configuration.
        path: the file; None for none.
        clock: what tells the time, in seconds since 1970.
        audit: where changes are written.
        read: reads the text of an upload.
    """

    __slots__ = (
        "_audit",
        "_clock",
        "_partitions",
        "_read",
        "_seen",
        "_swapping",
        "_writing",
        "in_use",
        "outcome",
        "path",
        "refused",
    )

    #: How the last attempt ended.
    outcome: Outcome
    #: The last attempt that succeeded: where the configuration in force comes from, and since when it is.
    in_use: Outcome
    #: Why the file was refused when it was read last; empty if it could be used.
    refused: tuple[Problem, ...]
    #: What the file was when it was read last, to find out whether it has changed.
    _seen: object

    def __init__(
        self,
        partitions: Mapping[str, Partition],
        path: str | os.PathLike[str] | None,
        *,
        clock: Callable[[], float] = time.time,
        audit: AuditLog | None = None,
        read: Callable[[str], SchedulerConfig] | None = None,
    ) -> None:
        self._partitions: Final = partitions
        self.path: Final = None if path is None else Path(path)
        self._clock: Final = clock
        self._audit: Final = audit or AuditLog(clock)
        self._read: Final = read or _read
        #: Of two replacements at a time the second waits, so that all partitions end up with the same one.
        self._writing: Final = Lock()
        #: Held while partitions follow a configuration one after the other, so that nobody sees half of a change.
        self._swapping: Final = Lock()
        self._seen = self._look()
        self.outcome = self.in_use = Outcome("start", clock())
        self.refused = ()

    def in_force(self) -> str:
        """Return the configuration in force as YAML.

        Raises:
            ApiError: a partition was given a configuration that does not come from `ugm.config`.
        """
        with self._swapping:
            found = {name: partition.config for name, partition in self._partitions.items()}
        configs = []
        for name, settings in found.items():
            config = _nothing(name) if settings is None else settings
            if not isinstance(config, PartitionConfig):
                raise ApiError(409, "config-foreign", f"the configuration of partition {name!r} was made by a program")
            configs.append(config)
        return dump_config(SchedulerConfig(partitions=tuple(configs)))

    def upload(self, text: str, actor: Actor = _PROGRAM) -> dict[str, Changes]:
        """Put a configuration in force, and return what it changes in each partition.

        Raises:
            ConfigError: it cannot be used, or lacks a partition; nothing has changed.
        """
        return self._attempt("upload", actor, lambda: self._read(text))

    def reload(self, actor: Actor = _PROGRAM) -> dict[str, Changes]:
        """Put the configuration of the file in force, and return what it changes in each partition.

        Raises:
            ApiError: there is no file.
            ConfigError: it cannot be read or used; nothing has changed.
        """
        return self._attempt("file", actor, self._load)

    def _load(self) -> SchedulerConfig:
        if self.path is None:
            raise ApiError(409, "config-without-file", "the server was started without a configuration file")
        return load_config(self.path)

    def reload_if_changed(self) -> bool:
        """Do what `reload` does if the file has changed since it was read last, and say whether it has.

        A file that cannot be used is logged, and `refused` keeps what is wrong with it.
        """
        if self.path is None or self._look() == self._seen:
            return False
        # An error is logged, and kept in `refused`; the old configuration is still in force.
        with suppress(UgmError):
            self.reload(_WATCH)
        return True

    def _attempt(self, source: str, actor: Actor, read: Callable[[], SchedulerConfig]) -> dict[str, Changes]:
        outcome = "failed"
        try:
            changed = self._replace(source, read)
            outcome = "ok"
        except ConfigError:
            outcome = "config-invalid"
            raise
        except UgmError:
            outcome = "config-unusable"
            raise
        except ApiError as error:
            outcome = error.code
            raise
        finally:
            target = str(self.path) if source == "file" else "upload"
            self._audit.write(
                client=actor.client, role=actor.role, action="replace configuration", target=target, outcome=outcome
            )
        return changed

    def _replace(self, source: str, read: Callable[[], SchedulerConfig]) -> dict[str, Changes]:
        with self._writing:
            if source == "file":
                # Before reading: what is written in between is read again the next time.
                self._seen = self._look()
            try:
                chosen = _chosen(read(), self._partitions, source)
                changed = {name: changes(self._partitions[name].config, config) for name, config in chosen.items()}
            except UgmError as error:
                self._refuse(source, error)
                raise
            with self._swapping:
                for name, config in chosen.items():
                    self._partitions[name].configure(config)
            self._accept(source)
        return changed

    def _refuse(self, source: str, error: UgmError) -> None:
        unusable = (Problem(source, 0, 0, "partitions", "config-unusable", str(error)),)
        problems = error.problems if isinstance(error, ConfigError) else unusable
        self.outcome = Outcome(source, self._clock(), problems)
        if source == "file":
            self.refused = problems
            listed = "\n".join(map(str, problems))
            _LOGGER.warning("%s was not reloaded, the old configuration stays in force:\n%s", self.path, listed)

    def _accept(self, source: str) -> None:
        self.outcome = self.in_use = Outcome(source, self._clock())
        if source == "file":
            self.refused = ()
            _LOGGER.info("%s was reloaded and is in force", self.path)

    def _look(self) -> object:
        """Return what tells one state of the file from another; a link is followed to what it points at."""
        if self.path is None:
            return None
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns

    def to_dict(self) -> dict[str, Any]:
        """Return the last attempt and the configuration in force for JSON."""
        source, at, problems = self.outcome
        return {
            "file": None if self.path is None else str(self.path),
            "source": source,
            "at": at,
            "problems": [str(problem) for problem in problems],
            "in_force": {"source": self.in_use.source, "at": self.in_use.at},
            "refused": [str(problem) for problem in self.refused],
        }


def _read(text: str) -> SchedulerConfig:
    return parse_config(text, file="upload")


def _nothing(name: str) -> PartitionConfig:
    """Return what a partition without a configuration runs under."""
    return PartitionConfig(name=name, queues=(QueueConfig(name=ROOT),))


def _chosen(config: SchedulerConfig, partitions: Mapping[str, Partition], source: str) -> dict[str, PartitionConfig]:
    """Return the part of a configuration for each partition.

    Raises:
        ConfigError: a partition is missing, or one is too much.
    """
    found = {partition.name: partition for partition in config.partitions}
    told = [("partition-missing", f"partition {name!r} is missing") for name in partitions if name not in found]
    told += [
        ("partition-unserved", f"partition {name!r} is not served here") for name in found if name not in partitions
    ]
    if told:
        raise ConfigError(tuple(Problem(source, 0, 0, "partitions", code, message) for code, message in told))
    return {name: found[name] for name in partitions}
