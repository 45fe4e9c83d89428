"""Errors of the REST interface: an HTTP status, a code for programs and a message for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ugm.errors import ConfigError, Problem, RequestError

__all__ = ["ApiError", "problem_to_dict", "unknown"]


class ApiError(Exception):
    """A refused request.

    Attributes:
        status: the HTTP status.
        code: a stable identifier for programs, for example ``partition-unknown``.
        message: a sentence for people.
        problems: the problems of a configuration.
    """

    def __init__(self, status: int, code: str, message: str, problems: Sequence[Problem] = ()) -> None:
        super().__init__(status, code, message, tuple(problems))
        self.status: Final = status
        self.code: Final = code
        self.message: Final = message
        self.problems: Final = tuple(problems)

    @classmethod
    def from_request_error(cls, error: RequestError) -> ApiError:
        """Convert an invalid argument of a partition operation."""
        return cls(400, "request-invalid", str(error))

    @classmethod
    def from_config_error(cls, error: ConfigError) -> ApiError:
        """Convert an invalid configuration, with all its problems."""
        count = len(error.problems)
        return cls(422, "config-invalid", f"{count} problem{'s' * (count != 1)}; nothing has changed", error.problems)

    def __str__(self) -> str:
        return self.message

    def to_dict(self) -> dict[str, object]:
        """Return the error for JSON."""
        fields: dict[str, object] = {"code": self.code, "message": self.message}
        return {**fields, "problems": list(map(problem_to_dict, self.problems))} if self.problems else fields


def unknown(kind: str, name: str) -> ApiError:
    """Return the error for an object that does not exist."""
    return ApiError(404, f"{kind}-unknown", f"there is no {kind} {name!r}")


def problem_to_dict(problem: Problem) -> dict[str, object]:
    """Return a configuration problem for JSON, without the file name, which the client knows."""
    return {name: getattr(problem, name) for name in ("line", "column", "path", "code", "message")}
