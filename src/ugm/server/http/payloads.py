"""Response bodies: results and errors, independent of the web framework."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from types import NoneType
from typing import Final, NamedTuple, TypeVar

from ugm._json_values import JsonObject, to_json
from ugm.errors import ERROR_CODES, ConfigError, Problem, RequestError, UgmError, value_text

_T = TypeVar("_T")

_encode: Final = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode


class Payload(NamedTuple):
    """A serialized response body with its HTTP status."""

    status: int
    content: bytes
    media_type: str = "application/json"


def json_payload(value: object, status: int = 200) -> Payload:
    """Serialize a value as JSON, in ASCII and without spaces."""
    return Payload(status, _encode(to_json(value)).encode("ascii"))


@dataclass(eq=False)
class ApiError(Exception):
    """A refused request."""

    #: The HTTP status.
    status: int
    #: A stable identifier for programs, for example ``partition-unknown``.
    code: str
    #: A sentence for people.
    message: str
    #: Further values for programs, for JSON, for example the ``problems`` of a configuration.
    data: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def of(cls, error: UgmError) -> ApiError:
        """Convert an error of a partition or configuration; its code determines the status."""
        status = ERROR_CODES[error.code].status
        if isinstance(error, ConfigError):
            count = len(error.problems)
            message = f"{count} problem{'s' * (count != 1)}; nothing has changed"
            return cls(status, error.code, message, {"problems": [problem_to_dict(one) for one in error.problems]})
        data = {"argument": error.argument, "value": _simple(error.value)} if isinstance(error, RequestError) else {}
        return cls(status, error.code, str(error), data)

    def __str__(self) -> str:
        return self.message

    def to_dict(self) -> JsonObject:
        """Return the error for JSON, as problem details (RFC 9457)."""
        known = ERROR_CODES.get(self.code)
        return {
            "type": f"urn:ugm:error:{self.code}",
            "title": HTTPStatus(self.status).phrase if known is None else known.meaning,
            "status": self.status,
            "detail": self.message,
            "code": self.code,
            **self.data,
        }

    def payload(self, *, is_yunikorn: bool = False) -> Payload:
        """Return the error as a response body, or in the format of Apache YuniKorn with its code."""
        if is_yunikorn:
            text = self.message
            found = {"status_code": self.status, "message": text, "description": text, "code": self.code}
            return json_payload(found, self.status)
        return json_payload(self.to_dict(), self.status)._replace(media_type="application/problem+json")


def internal_error() -> ApiError:
    """Return the error for an exception that the server does not expect. Log the exception before."""
    return ApiError(500, "internal", "the server failed; its log has the details")


def require_found(kind: str, name: str, find: Callable[[str], _T | None]) -> _T:
    """Return an object by its name.

    Raises:
        ApiError: there is no such object.
    """
    found = find(name)
    if found is None:
        raise ApiError(404, f"{kind}-unknown", f"there is no {kind} {name!r}")
    return found


def _simple(value: object) -> object:
    """Return a text, a truth value, a small number or None as it is, and any other value as a text."""
    return value if type(value) in (str, bool, int, NoneType) else value_text(value)


def problem_to_dict(problem: Problem) -> dict[str, object]:
    """Return a configuration problem for JSON, without the file name, which the client knows."""
    return {name: getattr(problem, name) for name in ("line", "column", "path", "code", "message")}
