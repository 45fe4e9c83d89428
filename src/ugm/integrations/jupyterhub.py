"""Limits for the servers of JupyterHub, by user and group: `limit_servers` in ``jupyterhub_config.py``.

An application and its only allocation stand for each server. The hub calls a hook before it starts a server, which
grants or denies it, and another one after the server has stopped or failed to start, which ends it. The hub may be
killed before it calls the second hook, or may run servers that were started without the first one. So a task in the
event loop of the hub compares the ledger with the list of servers every minute, beginning at its start.

The hub has no hook that runs when it knows its servers, so `limit_servers` replaces the method ``start`` of the
application. A service that the hub manages would need no replacement. But it could not use a store that the hub has
opened, and could not compute the usage of a server that was started without a grant.
"""

from __future__ import annotations

import asyncio
import hashlib
import html
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import KW_ONLY, dataclass, field
from inspect import isawaitable
from typing import Any, Final, Protocol, TypeAlias

from ugm.errors import RequestError
from ugm.identity import WILDCARD, UserGroup, is_name
from ugm.integrations.grants import GrantDeniedError, Grants, Remedy, Work
from ugm.integrations.sources import PartitionSource, quota_source
from ugm.partition import AllocationSpec, OwnedAllocation, RunningApplication
from ugm.resources import Resource

__all__ = ["HubSpawner", "ServerLimits", "limit_servers", "quota_source", "server_usage"]


class HubSpawner(Protocol):
    """The attributes of a ``jupyterhub.spawner.Spawner`` that are used here."""

    name: str
    #: The user, with a ``name``, ``groups`` that have a ``name``, and ``spawners`` by name.
    user: Any
    #: The address of the server; None if it neither runs nor starts.
    server: object
    #: The change that is under way, such as ``spawn``; None for none.
    pending: str | None
    mem_guarantee: int | None
    mem_limit: int | None
    cpu_guarantee: float | None
    cpu_limit: float | None
    #: What the user has chosen in the form, or has sent over REST.
    user_options: dict[str, Any]
    log: logging.Logger

    def trait_defaults(self, name: str, /) -> Any:  # noqa: ANN401 - any value
        """Return the value of an attribute that is not configured."""


#: A hook of the configuration of the hub, which may be a coroutine function.
_Hook: TypeAlias = Callable[[HubSpawner], Any]
#: A form of the configuration of the hub: HTML, or a function that returns it.
_Form: TypeAlias = str | Callable[[HubSpawner], str | Awaitable[str]]
#: A function of the operator, which may be a coroutine function.
_Usage: TypeAlias = Callable[[HubSpawner], Resource | Awaitable[Resource]]

#: The HTTP status of each kind of denial. The hub counts a status of 500 or more as a failure, and may stop then.
_STATUS: Final = {Remedy.RELEASE: 429, Remedy.RENEWAL: 429, Remedy.NOTHING: 403, Remedy.SERVICE: 409}
_UNCHECKED: Final = "The quota of this server cannot be checked. Ask an administrator to read the log of the hub."
#: The longest id of the hub that leaves place for the name of the host in an id of the ledger.
_MAX_ID: Final = 190


def server_usage(spawner: HubSpawner) -> Resource:
    """Return the usage of a server: one of ``servers``, and its guaranteed memory and cores, or else their limits.

    A server without a guarantee and a limit of memory uses no ``memory``, and the same for cores and ``vcore``.
    """
    amounts = {"servers": 1}
    if memory := spawner.mem_guarantee or spawner.mem_limit:
        amounts["memory"] = int(memory)
    if cores := spawner.cpu_guarantee or spawner.cpu_limit:
        amounts["vcore"] = round(cores * 1000)
    return Resource(amounts)


def limit_servers(
    c: MutableMapping[str, Any],
    source: PartitionSource,
    *,
    usage: _Usage = server_usage,
    queue: str = "",
    duration: Callable[[HubSpawner], int | None] | None = None,
    fails_open: bool = False,
    host: str = "jupyterhub",
) -> ServerLimits:
    """Let the hub start only servers that the quotas of their users allow.

    Call it at the end of the configuration. Hooks that are set before still run: a ``pre_spawn_hook`` before a server
    is granted, and a ``post_stop_hook`` after its grant has ended. An ``options_form`` that is set before shows what
    the user may still start.

    Args:
        c: the configuration of the hub.
        source: the quotas, as `ugm.integrations.quota_source` returns them.
        usage: returns the usage of a server that is about to start; may be a coroutine function.
        queue: the queue of all servers; by default the placement rules of the configuration decide.
        duration: returns the number of seconds after which the host stops a server, for budgets that reserve it; None
            if it is not limited.
        fails_open: whether servers may start while the quotas cannot be read.
        host: the name of this hub in the ledger. Hubs that share a service need different names.

    Returns:
        The limits, whose `ServerLimits.options_form` adds the remaining amounts to a form.
    """
    limits = ServerLimits(Grants(source, host, fails_open=fails_open), usage=usage, queue=queue, duration=duration)
    limits.install(c)
    return limits


@dataclass(eq=False)
class ServerLimits:
    """The limits of the servers of a hub. Use `limit_servers`, whose arguments are the same."""

    #: The grants of the hub.
    grants: Grants
    _: KW_ONLY
    usage: _Usage = server_usage
    queue: str = ""
    duration: Callable[[HubSpawner], int | None] | None = None
    _hooks: set[_Hook] = field(default_factory=set, init=False)
    _task: asyncio.Task[None] | None = field(default=None, init=False)

    def options_form(self, form: _Form | None = None) -> Callable[[HubSpawner], Awaitable[str]]:
        """Return a form for ``c.Spawner.options_form`` that begins with the amounts that the user may still start.

        Args:
            form: the rest of the form: HTML, or a function that returns it for a spawner; None for the form that the
                class of the spawner has by default, for example that of the profiles of KubeSpawner.
        """

        async def shown(spawner: HubSpawner) -> str:
            rest = spawner.trait_defaults("options_form") if form is None else form
            return await self._remaining(spawner) + (await _result(rest(spawner)) if callable(rest) else rest)

        return shown

    async def _remaining(self, spawner: HubSpawner) -> str:
        try:
            text = await self.grants.remaining_text(_user_group(spawner.user), self.queue)
        except RequestError:
            spawner.log.exception("the remaining amounts cannot be shown")
            text = ""
        return f'<p class="ugm-remaining">{html.escape(text)}</p>\n' if text else ""

    # Hooks

    async def grant(self, spawner: HubSpawner) -> None:
        """Grant a server that is about to start.

        Raises:
            Exception: the ``SpawnException`` of a denial, whose message is for the user.
        """
        try:
            await self._grant(_server_id(spawner), await self._spec(spawner), spawner)
        except GrantDeniedError as denial:
            raise _refusal(denial.text, _STATUS[denial.remedy]) from denial
        except Exception as error:
            if hasattr(error, "status_code"):  # a message of the functions of the operator
                raise
            spawner.log.exception("the quota of a server cannot be checked")
            raise _refusal(_UNCHECKED, _STATUS[Remedy.SERVICE]) from error

    async def _grant(self, name: str, spec: AllocationSpec, spawner: HubSpawner) -> None:
        user = _user_group(spawner.user)
        try:
            await self.grants.grant(name, user, self.queue, [spec])
        except RequestError:  # perhaps the ledger still has an earlier server of this name
            await self.grants.end(name)
            await self.grants.grant(name, user, self.queue, [spec])

    async def end(self, spawner: HubSpawner) -> None:
        """End the grant of a server that has stopped or has failed to start."""
        await self.grants.end(_server_id(spawner))

    # Comparison

    async def list_work(self, users: Iterable[Any], held: Mapping[str, OwnedAllocation]) -> Work:
        """Return the servers of some users. A server that is checked after a restart of the hub counts as running.

        The hub forgets changes of limits that were made for one start. So a server in the ledger keeps its usage there.
        """
        running, starting = [], list[str]()
        known = [user for user in users if _is_usable(user.name)]
        for spawner in [spawner for user in known for spawner in user.spawners.values()]:
            name = _server_id(spawner)
            if spawner.pending in {"spawn", "stop"}:
                starting.append(name)
            elif spawner.server is not None:
                spec = AllocationSpec(name, held[name].allocation.usage) if name in held else await self._found(spawner)
                running.append(RunningApplication(name, _user_group(spawner.user), self.queue, [spec]))
        return Work(running, starting)

    async def _found(self, spawner: HubSpawner) -> AllocationSpec:
        """Return the usage of a server that was started without a grant. An error must not keep all others waiting."""
        try:
            return await self._spec(spawner)
        except Exception:
            spawner.log.exception("the usage of a server is unknown")
            return AllocationSpec(_server_id(spawner), server_usage(spawner))

    async def _spec(self, spawner: HubSpawner) -> AllocationSpec:
        if load := getattr(spawner, "load_user_options", None):  # KubeSpawner applies the chosen profile after the hook
            await load()
        usage = await _result(self.usage(spawner))
        duration = None if self.duration is None else self.duration(spawner)
        return AllocationSpec(_server_id(spawner), usage, duration=duration)

    # Installation

    def install(self, c: MutableMapping[str, Any]) -> None:
        """Add the hooks to the configuration of the hub, and the comparison to its start.

        Commands of the hub that only read the configuration start nothing.
        """
        for section in _sections(c):
            if section is c["Spawner"] or "pre_spawn_hook" in section:
                section["pre_spawn_hook"] = self._known(_both(section.get("pre_spawn_hook"), self.grant))
            if section is c["Spawner"] or "post_stop_hook" in section:
                section["post_stop_hook"] = self._known(_both(self.end, section.get("post_stop_hook")))
            if "options_form" in section:
                section["options_form"] = self.options_form(section["options_form"])
        from jupyterhub.app import JupyterHub  # type: ignore[import-not-found,import-untyped,unused-ignore]  # noqa: PLC0415

        if JupyterHub.initialized():
            self._compare_from_start_on(JupyterHub.instance())

    def _compare_from_start_on(self, hub: Any) -> None:  # noqa: ANN401 - the hub has no types
        start = hub.start

        async def start_with_limits() -> None:  # the hub knows all of its servers, and does not listen yet
            self._require_hooks(hub)
            logging.getLogger("ugm").parent = hub.log
            comparison = self.grants.keep_reconciled(lambda held: self.list_work(hub.users.values(), held))
            self._task = asyncio.create_task(comparison)
            await _result(start())

        hub.start = start_with_limits

    def _require_hooks(self, hub: Any) -> None:  # noqa: ANN401 - as above
        """Check that no later line of the configuration has replaced a hook.

        Raises:
            RequestError: a hook was replaced, so servers would start without a limit.
        """
        for name in ("pre_spawn_hook", "post_stop_hook"):
            sections = [hub.config.get(kind.__name__, {}) for kind in hub.spawner_class.mro()]
            hook = next((section[name] for section in sections if name in section), None)
            if hook not in self._hooks:
                reason = "this hook would replace the limits of the servers; set it before limit_servers is called"
                raise RequestError(name, hook, reason)

    def _known(self, hook: _Hook) -> _Hook:
        self._hooks.add(hook)
        return hook


def _sections(c: MutableMapping[str, Any]) -> Iterator[MutableMapping[str, Any]]:
    """Yield the section of all spawners, and those of other classes."""
    yield c["Spawner"]
    yield from [section for name, section in c.items() if name != "Spawner" and isinstance(section, MutableMapping)]


def _both(first: _Hook | None, second: _Hook | None) -> _Hook:
    """Return a hook that runs two hooks, of which one may be missing."""

    async def run(spawner: HubSpawner) -> None:
        for hook in filter(None, (first, second)):
            await _result(hook(spawner))

    return run


async def _result(value: Any) -> Any:  # noqa: ANN401 - of a function that may be a coroutine function
    return await value if isawaitable(value) else value


def _refusal(text: str, status: int) -> Exception:
    from jupyterhub.spawner import SpawnException  # type: ignore[import-not-found,import-untyped,unused-ignore]  # noqa: PLC0415

    refusal: Exception = SpawnException(text, reason="quota", status_code=status)
    refusal.jupyterhub_message = text  # type: ignore[attr-defined]  # for pages that show a failure later
    return refusal


def _user_group(user: Any) -> UserGroup:  # noqa: ANN401 - see `HubSpawner.user`
    return UserGroup(user.name, sorted(filter(_is_usable, (group.name for group in user.groups))))


def _is_usable(name: str) -> bool:
    """Return whether a name of the hub may occur in requests."""
    return is_name(name) and name != WILDCARD


def _server_id(spawner: HubSpawner) -> str:
    """Return the id of a server. Names of users contain no slash, so two servers never have the same id."""
    name = f"{spawner.user.name}/{spawner.name}"
    if len(name) <= _MAX_ID:
        return name
    return f"{name[:100]}//{hashlib.sha256(name.encode()).hexdigest()}"
