"""One route: a method of a path, with the function that answers it and the schemas of its request and response."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import getdoc
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from ugm.server.access import Role
from ugm.server.schemas import Schema
from ugm.server.state import RequestContext

__all__ = ["PREFIX", "STREAM_PATH", "YUNIKORN_PREFIX", "AnyRoute", "Route"]

_Target = TypeVar("_Target")

#: The prefix of the paths of this interface.
PREFIX: Final = "/api/v1"
#: The path of the live changes of a partition; see `ugm.server.streams`.
STREAM_PATH: Final = f"{PREFIX}/partition/{{partition}}/stream"
#: The prefix of the paths that respond in the format of Apache YuniKorn.
YUNIKORN_PREFIX: Final = "/ws/v1"


class Route(NamedTuple, Generic[_Target]):
    """One method of one path, with the function that answers it."""

    method: str
    #: Below the prefix; variable parts are in braces.
    path: str
    #: The first argument is the partition, or the state of the server.
    answer: Callable[[_Target, RequestContext], object]
    result: Schema
    #: The query parameters by name, and those that are required.
    query: Mapping[str, Schema] = {}
    required: frozenset[str] = frozenset()
    #: The schema of the body; None if the route takes no body.
    body: Schema | None = None
    #: The role that a client needs.
    role: Role = Role.READ
    #: Whether the body is a configuration in YAML, which a worker process reads; see `ugm.server.worker`.
    reads_config: bool = False
    #: Whether the body may have any media type.
    takes_any_type: bool = False
    returns_yaml: bool = False
    returns_csv: bool = False
    #: Whether the response is a stream of server-sent events, which does not end.
    is_stream: bool = False
    #: Whether the answer takes so little time that the event loop creates it, instead of a thread.
    is_quick: bool = False
    #: The name of the operation in the description; by default that of the function.
    operation: str = ""
    prefix: str = PREFIX

    @property
    def full_path(self) -> str:
        """The path with its prefix."""
        return self.prefix + self.path

    @property
    def is_yunikorn(self) -> bool:
        """True if responses have the format of Apache YuniKorn."""
        return self.prefix == YUNIKORN_PREFIX

    @property
    def name(self) -> str:
        """The name of the operation."""
        return self.operation or self.answer.__name__

    @property
    def summary(self) -> str:
        """The first line of the docstring of the function, for the description."""
        return (getdoc(self.answer) or self.name).partition("\n")[0]


AnyRoute: TypeAlias = Route[Any]
