"""The few errors of ugm: each is a fact, carries its data, and survives pickling.

A denial is not an error; it is a `ugm.Decision`. What is raised here is misuse of a call, a configuration that cannot
be used, or damage found by a self-check. Nothing has changed when one of these is raised.

Every error passes its data on to `Exception.__init__`, so that `pickle` and `copy` rebuild it from its arguments, and
writes its text only when somebody reads it.
"""

from __future__ import annotations

from math import log10
from typing import Final, NamedTuple

__all__ = [
    "ConfigError",
    "InvariantError",
    "NotTrackedError",
    "Problem",
    "QuantityError",
    "ReentrantCallError",
    "ReleaseError",
    "RequestError",
    "UgmError",
]


#: Integers of at most this many bits are written exactly: no setting of Python refuses their 633 digits.
_EXACT_BITS: Final = 2100
#: How many digits of a larger one are written.
_DIGITS: Final = 16
#: The most characters of a value that an error shows.
_LONGEST: Final = 1000


def number_text(number: int) -> str:
    """Write a whole number of any size.

    Python refuses to write numbers of more than 4,300 digits, and takes long for them. Of a number with more than about
    600 digits, the first 16 and the exponent are written.

    >>> number_text(-12), number_text(2 * 10**5000)
    ('-12', '2.000000000000000e+5000')
    """
    if number.bit_length() <= _EXACT_BITS:
        return str(number)
    # The estimate is one too low at most.
    exponent = int((number.bit_length() - 1) * log10(2))
    first = str(abs(number) // 10 ** (exponent - _DIGITS))
    exponent += len(first) - _DIGITS - 1
    return f"{'-' if number < 0 else ''}{first[0]}.{first[1:_DIGITS]}e+{exponent}"


def value_text(value: object) -> str:
    """Show a value in an error: its representation, or the beginning of a long one."""
    try:
        text = number_text(value) if type(value) is int else repr(value)
    except (ValueError, RecursionError):  # it contains a number that is too long for Python, or is nested too deep
        text = f"<{type(value).__name__}>"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


class UgmError(Exception):
    """The root of every error that ugm raises on purpose."""


class QuantityError(UgmError, ValueError):
    """A text is not a quantity.

    Attributes:
        text: what was read.
        reason: what is wrong with it, as the end of a sentence.
    """

    def __init__(self, text: str, reason: str) -> None:
        super().__init__(text, reason)
        self.text: Final = text
        self.reason: Final = reason

    def __str__(self) -> str:
        return f"{value_text(self.text)} is not a quantity: {self.reason}"


class RequestError(UgmError, ValueError):
    """A call was given something that no correct caller passes.

    Attributes:
        argument: the name of the argument at fault.
        value: what was passed.
        reason: what is wrong with it, as the end of a sentence.
    """

    def __init__(self, argument: str, value: object, reason: str) -> None:
        super().__init__(argument, value, reason)
        self.argument: Final = argument
        self.value: Final = value
        self.reason: Final = reason

    def __str__(self) -> str:
        return f"{self.argument} {value_text(self.value)}: {self.reason}"


class NotTrackedError(UgmError, LookupError):
    """Something was to be given back by somebody who holds nothing there.

    Attributes:
        application_id: the application named in the call.
        queue_path: the queue named in the call.
        user: the user named in the call.
        reason: which of the three is unknown, as the end of a sentence.
    """

    def __init__(self, application_id: str, queue_path: str, user: str, reason: str) -> None:
        super().__init__(application_id, queue_path, user, reason)
        self.application_id: Final = application_id
        self.queue_path: Final = queue_path
        self.user: Final = user
        self.reason: Final = reason

    def __str__(self) -> str:
        return f"application {self.application_id!r} of user {self.user!r} in {self.queue_path!r}: {self.reason}"


class ReleaseError(UgmError, ValueError):
    """An application was to give back more than it holds, or to end while it still holds something.

    Attributes:
        application_id: the application named in the call.
        queue_path: the queue named in the call.
        resource: the resource at fault.
        held: how much of it the application holds in that queue, in base units.
        released: how much of it the call gives back.
    """

    def __init__(self, application_id: str, queue_path: str, resource: str, held: int, released: int) -> None:
        super().__init__(application_id, queue_path, resource, held, released)
        self.application_id: Final = application_id
        self.queue_path: Final = queue_path
        self.resource: Final = resource
        self.held: Final = held
        self.released: Final = released

    def __str__(self) -> str:
        held, released, left = map(number_text, (self.held, self.released, self.held - self.released))
        where = f"application {self.application_id!r} in {self.queue_path!r} holds {held} {self.resource}"
        if self.released > self.held:
            return f"{where} and cannot give back {released}"
        return f"{where} and cannot end with {left} left"


class ReentrantCallError(UgmError, RuntimeError):
    """An operation was called in the middle of another operation of the same thread on the same object.

    Signal handlers, finalizers and quota models can do that. They have to leave the call to the program instead.
    Nothing has changed.
    """

    def __str__(self) -> str:
        return "called in the middle of another operation of the same thread, by a signal handler, finalizer or model"


class Problem(NamedTuple):
    """One thing that is wrong with a configuration, and where.

    Ordered by place, so that a sorted list reads like the file.
    """

    file: str
    #: Counted from 1; 0 where a problem has no place in the text (the file cannot be read, say).
    line: int
    column: int
    #: For example ``partitions[0].queues[0].limits[2].users``.
    path: str
    #: A stable word for programs, for example ``limit-user-duplicate``.
    code: str
    #: A sentence for people.
    message: str

    def __str__(self) -> str:
        place = f"{self.path}: " if self.path else ""
        return printable(f"{self.file}:{self.line}:{self.column}: {place}{self.message} [{self.code}]")


def printable(text: str) -> str:
    r"""Escape what cannot be shown, or would do something to a terminal; so one line stays one.

    >>> print(printable("two" + chr(10) + "lines, " + chr(27) + "[31mred"))
    two\nlines, \x1b[31mred
    """
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


class ConfigError(UgmError, ValueError):
    """A configuration cannot be used; nothing of it has taken effect.

    Attributes:
        problems: everything that is wrong with it, in the order of the file; never empty.
    """

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__(problems)
        self.problems: Final = problems

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


class InvariantError(UgmError):
    """A self-check found counters that do not follow from the applications: a bug in ugm, or memory gone bad.

    Attributes:
        findings: one sentence for each difference; never empty.
    """

    def __init__(self, findings: tuple[str, ...]) -> None:
        super().__init__(findings)
        self.findings: Final = findings

    def __str__(self) -> str:
        return "\n".join(self.findings)
