"""The errors of the service and its clients."""

from __future__ import annotations

from typing import Final

from ugm.errors import OutageError


class ServiceError(OutageError):
    """The leader could not execute an operation.

    Attributes:
        reason: the problem, as the end of a sentence.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason: Final = reason

    def __str__(self) -> str:
        return f"the service failed: {self.reason}"


class UnavailableError(ServiceError):
    """No leader can be reached. A change that was sent may or may not take effect; repeat the call to find out.

    Attributes:
        addresses: the addresses that were tried.
    """

    def __init__(self, addresses: tuple[str, ...], reason: str) -> None:
        super().__init__(reason)
        self.args: tuple[object, ...] = (addresses, reason)
        self.addresses: Final = addresses

    def __str__(self) -> str:
        return f"no leader answered at {', '.join(self.addresses)}: {self.reason}"


class DeadlineError(UnavailableError):
    """A call was not answered in time. Its change may or may not take effect; repeat the call to find out."""


class FencedError(ServiceError):
    """The session of the client was fenced: it can neither obtain nor release allocations.

    Attributes:
        session: the session.
    """

    code = "session-fenced"

    def __init__(self, session: str) -> None:
        super().__init__(f"session {session} was fenced")
        self.args: tuple[object, ...] = (session,)
        self.session: Final = session

    def __str__(self) -> str:
        return self.reason


class ProtocolError(ServiceError):
    """The other side sent something that the protocol does not allow, or refused a connection.

    Attributes:
        problem: a stable identifier of the problem, for example ``token``.
    """

    code = "protocol-error"

    def __init__(self, problem: str, reason: str) -> None:
        super().__init__(reason)
        self.args: tuple[object, ...] = (problem, reason)
        self.problem: Final = problem

    def __str__(self) -> str:
        return self.reason
