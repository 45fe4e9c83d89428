"""The configuration of all partitions of a server: the one in force, reloads from the file, uploads, and past attempts.

A configuration is applied to all partitions or to none: it is read, validated and compiled for every partition before
the first of them changes. An upload does not change the file, so the next reload returns to the content of the file.

Every reload is logged: at level INFO if the file is now in force, at WARNING if it was refused. The newest attempts are
kept: by whom, when, and with which differences.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple, final

from ugm import ConfigError, Problem, UgmError
from ugm.config import PartitionConfig, QueueConfig, SchedulerConfig, load_config, parse_config
from ugm.config.text import included_files
from ugm.events import ConfigurationChanged
from ugm.identity import ROOT
from ugm.partition import AbstractPartition, Changes, changes
from ugm.server.http.audit import AuditLog
from ugm.server.http.payloads import ApiError

#: The number of attempts that are kept.
_MOST_ATTEMPTS: Final = 50
#: The sources of changes that a server makes.
_SOURCES: Final = ("file", "upload")
#: The number of differences of a partition, and of problems, that are kept of an attempt.
_MOST_LINES: Final = 200


class Actor(NamedTuple):
    """The client or event that changes the configuration."""

    #: The address of the client; ``local`` for the program, a signal, or the file watcher.
    client: str
    #: ``operator``, ``program``, ``signal``, ``watch``, or the author that a program has passed to `configure`.
    role: str

    def author(self, source: str) -> str:
        """Return the author of a change from a source, as events and stores contain it."""
        return f"{source} {self.role} {self.client}"

    @classmethod
    def of_author(cls, author: str) -> tuple[str, Actor]:
        """Return the source and the actor of an `author`; any other text is the role of a program."""
        match author.split(" "):
            case ["file" | "upload" as source, role, client]:
                return source, cls(client, role)
        return "program", cls("local", author or "program")


@dataclass(frozen=True, slots=True)
class ConfigAttempt:
    """An attempt to replace the configuration."""

    #: In seconds since 1970.
    at: float
    #: ``file`` or ``upload``; ``program`` for a change before the start of the server by a program; ``elsewhere`` for a
    #: change that this server has only noticed, at this time; ``start`` for what was in force at the start already.
    source: str
    client: str = "local"
    role: str = "program"
    #: ``ok``, or the code of the refusal.
    outcome: str = "ok"
    #: The first problems for which it was refused.
    problems: tuple[str, ...] = ()
    #: The differences from the configuration before, by partition, each with a sign: ``+``, ``-`` or ``~``.
    differences: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: The number of differences and problems that were left out.
    left_out: int = 0


_LOGGER: Final = logging.getLogger(__name__)


#: Equivalent to no configuration.
_EMPTY: Final = PartitionConfig(queues=(QueueConfig(name=ROOT),))
_PROGRAM: Final = Actor("local", "program")
_WATCH: Final = Actor("local", "watch")
_UNKNOWN: Final = Actor("unknown", "unknown")


@final
class Configurations:
    """Replaces the configuration of several partitions together.

    Args:
        partitions: the partitions by name, as in the configuration.
        path: the configuration file; None without one.
        clock: returns the time, in seconds since 1970.
        audit: records the changes.
        is_file_shared: whether the file may contain further partitions, which other servers serve.
    """

    def __init__(
        self,
        partitions: Mapping[str, AbstractPartition],
        path: str | os.PathLike[str] | None,
        *,
        clock: Callable[[], float] = time.time,
        audit: AuditLog | None = None,
        is_file_shared: bool = False,
    ) -> None:
        self._partitions: Final = partitions
        self._is_file_shared: Final = is_file_shared
        self.path: Final = None if path is None else Path(path)
        self._clock: Final = clock
        self._audit: Final = audit or AuditLog(clock)
        #: Held during a replacement: two at a time could leave the partitions with different configurations.
        self._writing: Final = Lock()
        #: The state of the file when it was read last, and the files that it includes.
        self._inclusions: tuple[object, tuple[str, ...]] = (None, ())
        #: The state of the file when it was last read, to detect changes.
        self._file_state = self._read_file_state()
        self._started: Final = clock()
        #: The last attempt that was applied, or was refused for problems.
        self.outcome: ConfigAttempt = ConfigAttempt(self._started, "start")
        #: The last successful attempt, or change elsewhere, so the source and the time of the configuration in force.
        self.in_use: ConfigAttempt = self.outcome
        #: The configuration of each partition after that; empty before the first reading.
        self._known: Final[dict[str, PartitionConfig | None]] = {}
        #: The first problems of the file when it was last read; empty if it was applied.
        self.refused: tuple[str, ...] = ()
        #: The differences between the file at the start and the configuration in force, a line each; empty after either
        #: was replaced. A store keeps the configuration, so a file that was edited while no server ran is not in force.
        self.unapplied: tuple[str, ...] = ()
        self._is_compared = False
        #: The newest attempts, the newest first.
        self.attempts: list[ConfigAttempt] = []
        #: The number of attempts by source (``file`` or ``upload``) and result (``applied`` or ``refused``).
        self.counts: dict[tuple[str, str], int] = dict.fromkeys(product(_SOURCES, ("applied", "refused")), 0)

    def config_in_force(self) -> SchedulerConfig:
        """Return the configuration in force."""
        self.notice_changes()
        configs = (replace(one.config or _EMPTY, name=name) for name, one in self._partitions.items())
        return SchedulerConfig(partitions=tuple(configs))

    def upload(self, text: str, actor: Actor = _PROGRAM, *, confirm: bool = False) -> dict[str, Changes]:
        """Apply the configuration in a text, and return the changes of each partition.

        Args:
            text: the configuration.
            actor: the program or person that requests it.
            confirm: whether a configuration may lower limits; see `ugm.partition.ConfigPlan.risks`.

        Raises:
            ApiError: the configuration has risks, and these are refused; nothing has changed.
            ConfigError: the configuration has problems, or a partition is missing; nothing has changed.
        """
        return self._attempt("upload", actor, lambda: parse_config(text, file="upload"), confirm=confirm)

    def reload(self, actor: Actor = _PROGRAM) -> dict[str, Changes]:
        """Apply the configuration in the file, and return the changes of each partition.

        Raises:
            ApiError: the server has no configuration file.
            ConfigError: the file cannot be read, or has problems; nothing has changed.
        """
        return self._attempt("file", actor, self._load)

    def _load(self) -> SchedulerConfig:
        if self.path is None:
            raise ApiError(409, "config-without-file", "the server was started without a configuration file")
        config = load_config(self.path)
        if self._is_file_shared:
            served = tuple(partition for partition in config.partitions if partition.name in self._partitions)
            return replace(config, partitions=served)
        return config

    def reload_if_changed(self) -> bool:
        """Reload the file if it has changed since it was last read, and return whether it has changed.

        A change of an included file counts as well.

        If the file has problems, they are logged and kept in `refused`.
        """
        if self.path is None or self._read_file_state() == self._file_state:
            return False
        # The problems are logged and kept in `refused`; the old configuration stays in force.
        with suppress(UgmError, ApiError):
            self.reload(_WATCH)
        return True

    def notice_changes(self) -> None:
        """Note changes of the configuration that were not made through this server.

        Raises:
            OutageError: a partition cannot be read now; call it again.
        """
        with self._writing:
            self._notice_changes()

    def _notice_changes(self) -> None:
        found = {name: one.config for name, one in self._partitions.items()}
        if not self._known and self.in_use.source == "start":
            self.in_use = replace(self.in_use, at=self._clock())
        known = {name: self._known.get(name, config) for name, config in found.items()}
        self._known.update(found)
        changed = {name: changes(known[name], config) for name, config in found.items() if known[name] != config}
        if any(changed.values()):
            self.in_use, self.unapplied = _attempt(self._clock(), "elsewhere", _UNKNOWN, "ok", (), changed), ()
            self._add(self.in_use)

    def compare(self) -> None:
        """Note the differences between the file and the configuration in force, once after the start.

        Raises:
            OutageError: a partition cannot be read now; call it again.
        """
        if self._is_compared or self.path is None:
            return
        with self._writing, suppress(ConfigError):
            if self.in_use.source == "start":
                chosen = _by_partition(self._load(), self._partitions, "file")
                found = {name: changes(self._partitions[name].config, config) for name, config in chosen.items()}
                self.unapplied = tuple(
                    f"{name}: {line}" for name, one in found.items() if one for line in str(one).splitlines()
                )
        self._is_compared = True
        if self.unapplied:
            listed = "\n".join(self.unapplied)
            _LOGGER.warning("%s is not in force; its differences from the stored configuration:\n%s", self.path, listed)

    def apply_file(self) -> None:
        """Put the file in force if it differs from the configuration in force, with the risks of its plans in the log.

        Raises:
            ConfigError: the file has problems; nothing has changed.
            OutageError: a partition cannot be used now.
        """
        self.compare()
        if self.unapplied:
            for risk in self._risks(_by_partition(self._load(), self._partitions, "file")):
                _LOGGER.warning("%s", risk)
            self.reload()

    def _attempt(
        self, source: str, actor: Actor, read: Callable[[], SchedulerConfig], *, confirm: bool = True
    ) -> dict[str, Changes]:
        code, problems, changed = "failed", tuple[object, ...](), dict[str, Changes]()
        try:
            changed = self._replace(source, actor, read, confirm=confirm)
            code = "ok"
        except (ApiError, UgmError) as error:
            code = error.code
            if not isinstance(error, ApiError):
                problems = error.problems if isinstance(error, ConfigError) else (error,)
            raise
        finally:
            self._note(_attempt(self._clock(), source, actor, code, problems, changed))
            target = str(self.path) if source == "file" else "upload"
            self._audit.write(*actor, "replace configuration", target, code)
        return changed

    def _replace(
        self, source: str, actor: Actor, read: Callable[[], SchedulerConfig], *, confirm: bool
    ) -> dict[str, Changes]:
        with self._writing:
            if source == "file":
                # Before the file is read, so that a later change is detected the next time.
                self._file_state = self._read_file_state()
            chosen = _by_partition(read(), self._partitions, source)
            self._notice_changes()
            changed = {name: changes(self._partitions[name].config, config) for name, config in chosen.items()}
            if not confirm and (risks := self._risks(chosen)):
                reason = f"the configuration lowers limits, which confirm=true allows: {'; '.join(risks)}"
                raise ApiError(409, "unconfirmed", reason, {"risks": risks})
            for name, config in chosen.items():
                self._partitions[name].configure(config, actor.author(source))
                self._known[name] = config
        return changed

    def _risks(self, chosen: Mapping[str, PartitionConfig]) -> list[str]:
        """Return the limits that configurations lower below the usage or by more than 10 %."""
        plans = {name: self._partitions[name].plan(config) for name, config in chosen.items()}
        return [f"{name}: {risk}" for name, plan in plans.items() for risk in plan.risks]

    def _note(self, attempt: ConfigAttempt) -> None:
        """Note that a configuration is in force, or was refused for its problems; other errors change nothing."""
        self._add(attempt)
        if attempt.outcome != "ok" and not attempt.problems:
            return
        self.outcome = attempt
        self.counts[attempt.source, "refused" if attempt.problems else "applied"] += 1
        if not attempt.problems:
            self.in_use, self.unapplied = attempt, ()
        if attempt.source == "file":
            self.refused = attempt.problems
            if self.refused:
                listed = "\n".join(self.refused)
                _LOGGER.warning("%s was not reloaded, the old configuration stays in force:\n%s", self.path, listed)
            else:
                _LOGGER.info("%s was reloaded and is in force", self.path)

    def _add(self, attempt: ConfigAttempt) -> None:
        self.attempts = sorted((attempt, *self.attempts), key=lambda one: -one.at)[:_MOST_ATTEMPTS]

    def add_earlier(self, partition: str, changed: Iterable[tuple[float, ConfigurationChanged]]) -> None:
        """Add changes of a partition from a store to the attempts, with their times in seconds since 1970.

        Those since the start of the server are known already.
        """
        for at, event in changed:
            if at < self._started:
                self._add(_attempt(at, *Actor.of_author(event.author), "ok", (), {partition: event.changes}))

    def _read_file_state(self) -> object:
        """Return a value that changes when the file or an included file changes; symbolic links are followed."""
        if self.path is None:
            return None
        own = _state_of(self.path)
        if own != self._inclusions[0]:
            self._inclusions = own, included_files(self.path)
        return own, [_state_of(Path(file)) for file in self._inclusions[1]]


def _state_of(path: Path) -> object:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _attempt(
    at: float, source: str, actor: Actor, code: str, problems: Sequence[object], changed: Mapping[str, Changes]
) -> ConfigAttempt:
    """Return an attempt with the first of its problems and differences."""
    lines = {name: str(one).splitlines() if one else [] for name, one in changed.items()}
    left_out = sum(max(0, len(each) - _MOST_LINES) for each in (problems, *lines.values()))
    kept = {name: tuple(found[:_MOST_LINES]) for name, found in lines.items()}
    return ConfigAttempt(at, source, *actor, code, tuple(map(str, problems[:_MOST_LINES])), kept, left_out)


def _by_partition(
    config: SchedulerConfig, partitions: Mapping[str, AbstractPartition], source: str
) -> dict[str, PartitionConfig]:
    """Return the configuration of each partition.

    Raises:
        ConfigError: the configuration does not have exactly the partitions of the server.
    """
    found = {partition.name: partition for partition in config.partitions}
    problems = [("partition-missing", f"partition {name!r} is missing") for name in partitions if name not in found]
    problems += [
        ("partition-unserved", f"the server has no partition {name!r}") for name in found if name not in partitions
    ]
    if problems:
        raise ConfigError(tuple(Problem(source, 0, 0, "partitions", code, message) for code, message in problems))
    return {name: found[name] for name in partitions}
