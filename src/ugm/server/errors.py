"""What the server answers when it cannot answer: a status, a code for programs and a sentence for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ugm.errors import ConfigError, Problem, RequestError

__all__ = ["ApiError", "of_config", "of_request", "problem_dict", "unknown"]


class ApiError(Exception):
    """A request that is refused.

    Attributes:
        status: of HTTP.
        code: a stable word for programs, for example ``partition-unknown``.
        message: a sentence.
        problems: of a configuration.
    """

    def __init__(self, status: int, code: str, message: str, problems: Sequence[Problem] = ()) -> None:
        super().__init__(status, code, message, tuple(problems))
        self.status: Final = status
        self.code: Final = code
        self.message: Final = message
        self.problems: Final = tuple(problems)

    def __str__(self) -> str:
        return self.message

    def to_dict(self) -> dict[str, Any]:
        """Return the error for JSON."""
        told: dict[str, Any] = {"code": self.code, "message": self.message}
        return {**told, "problems": [problem_dict(problem) for problem in self.problems]} if self.problems else told


def unknown(kind: str, name: str) -> ApiError:
    """Return the error of something that is not there."""
    return ApiError(404, f"{kind}-unknown", f"there is no {kind} {name!r}")


def of_request(error: RequestError) -> ApiError:
    """Return the error of what the engine refuses."""
    return ApiError(400, "request-invalid", str(error))


def of_config(error: ConfigError) -> ApiError:
    """Return the error of a configuration that cannot be used, with all its problems."""
    count = len(error.problems)
    return ApiError(422, "config-invalid", f"{count} problem{'s' * (count != 1)}; nothing has changed", error.problems)


def problem_dict(problem: Problem) -> dict[str, Any]:
    """Return a problem for JSON; the file is the one that was sent."""
    return {name: getattr(problem, name) for name in ("line", "column", "path", "code", "message")}
