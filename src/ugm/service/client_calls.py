"""The calls of a blocking client: a call for which a thread waits, and a call whose answer completes a future."""

from __future__ import annotations

from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from threading import Lock, local
from types import FrameType
from typing import Any, Final, final

import msgspec

from ugm.service.operations import RESULT, Operation
from ugm.service.wire import OperationRequest

__all__ = ["ClientCall", "Promise", "PromiseMode", "PromisedCall"]


class ClientCall:
    """A call for which a thread waits.

    Attributes:
        operation: the operation.
        request: the encoded operation.
        deadline: the time of `time.monotonic` until which the call waits.
        number: the number in the session.
        is_done: whether there is an answer or an error.
        error: the error if there is no answer.
    """

    __slots__ = ("_answer", "_woken", "deadline", "error", "is_done", "number", "operation", "request")

    def __init__(self, operation: Operation, request: OperationRequest, deadline: float) -> None:
        self.operation: Final = operation
        self.request: Final = request
        self.deadline: Final = deadline
        self.number: int = 0
        self.is_done: bool = False
        self.error: Exception | None = None
        self._answer: tuple[int, msgspec.Raw] | None = None
        #: Held while the thread has no reason to wake; None while it reads by itself.
        self._woken: Lock | None = None

    def complete(self, status: int, value: msgspec.Raw) -> None:
        """Accept the answer."""
        self._answer = status, value
        self.is_done = True
        if self._woken is not None:
            self.wake()

    def fail(self, error: Exception) -> None:
        """Accept an error instead of an answer."""
        self.error = error
        self.is_done = True
        self.wake()

    def wake(self) -> None:
        """Wake the thread that waits, because it may read or is done."""
        try:
            if self._woken is not None:
                self._woken.release()
        except RuntimeError:
            pass

    def prepare_to_sleep(self) -> None:
        """Let `wake` wake the thread. Check the condition after this call: `sleep` misses earlier events."""
        woken = Lock()
        woken.acquire()
        self._woken = woken

    def sleep(self, seconds: float) -> None:
        """Wait until the thread is woken, or for a time."""
        assert self._woken is not None  # noqa: S101 - prepared
        self._woken.acquire(timeout=max(seconds, 0))

    def result(self) -> Any:  # noqa: ANN401 - as the operation
        """Return the result or raise the error."""
        if self._answer is None:
            raise self.error or AssertionError("the call is not done")
        status, value = self._answer
        if status == RESULT:
            return self.operation.decode_result(value)
        raise self.operation.decode_error(bytes(value))


@final
class PromisedCall(ClientCall):
    """A call whose answer completes a future."""

    __slots__ = ("future",)

    def __init__(self, operation: Operation, request: OperationRequest, deadline: float) -> None:
        super().__init__(operation, request, deadline)
        self.future: Final[Future[Any]] = Future()
        self.future.set_running_or_notify_cancel()

    def wake(self) -> None:
        """Do nothing: no thread waits."""

    def finish(self) -> None:
        """Complete the future, unless it is complete; its callbacks may make other calls."""
        with suppress(InvalidStateError):
            try:
                result = self.result()
            except Exception as error:  # noqa: BLE001 - it is delivered
                self.future.set_exception(error)
            else:
                self.future.set_result(result)


@final
class Promise:
    """A call of `ClientConnection.promise`.

    Only an operation that this method calls by itself is promised. So a call by a signal handler waits for its answer,
    and so does every call after a promise that was interrupted.

    Attributes:
        caller: the frame of the method; None at its end.
        future: the future of the operation; None before the operation is called.
    """

    __slots__ = ("caller", "future")

    def __init__(self, caller: FrameType) -> None:
        self.caller: FrameType | None = caller
        self.future: Future[Any] | None = None


class PromiseMode(local):
    """The mode of a thread: whether it promises its calls.

    Attributes:
        current: the promise in progress. After an interruption it may be one that has ended.
    """

    current: Promise | None = None
