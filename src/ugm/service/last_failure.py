"""The reason why a client has no connection, for its errors."""

from __future__ import annotations

from typing import final

from ugm.service.addresses import Address

__all__ = ["LastFailure"]


@final
class LastFailure:
    """The last failure of an address that says why there is no connection.

    The last attempt usually ends because the deadline of the client has come. That says nothing about the address, so
    the failure before is kept.
    """

    __slots__ = ("_is_noted", "reason")

    #: The address and its failure, as the end of a sentence.
    reason: str

    def __init__(self) -> None:
        self.reason = "no address was tried"
        self._is_noted = False

    def note(self, address: Address, error: Exception, *, is_cut_short: bool = False) -> None:
        """Note a failure.

        Args:
            address: the address.
            error: the failure.
            is_cut_short: whether the attempt had less than half of the usual time. If the time has run out, it does not
                replace another failure.
        """
        is_late = isinstance(error, TimeoutError)
        if is_late and is_cut_short and self._is_noted:
            return
        # The errors of asyncio may have no text.
        text = str(error) or ("no answer in time" if is_late else type(error).__name__)
        self.reason, self._is_noted = f"{address}: {text}", True

    def end(self) -> None:
        """Let any failure replace the last one, because there is a connection now."""
        self._is_noted = False
