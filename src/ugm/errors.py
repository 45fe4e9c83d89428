"""The exceptions of ugm. Each has its data as attributes, and can be pickled.

A denial is not an error but a `ugm.Decision`. Errors are raised for misuse of a call, for a configuration that cannot
be used, and for damage that a self-check has found. A call that raises one of these errors has changed nothing, with
one exception: after an `OutageError`, a change may have taken effect or not.

Every error has a code, which `ERROR_CODES` describes. It passes its data to `Exception.__init__`, so that `pickle` and
`copy` can rebuild it, and formats its text on demand.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import log10
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from fractions import Fraction  # takes as long to import as the rest of this module

__all__ = [
    "ERROR_CODES",
    "ConfigError",
    "ErrorCode",
    "InvariantError",
    "NotTrackedError",
    "OutageError",
    "Problem",
    "QuantityError",
    "ReentrantCallError",
    "ReleaseError",
    "RequestError",
    "ResourceNameWarning",
    "UgmError",
]


#: Integers of at most this many bits are written exactly. They have at most 633 digits, which every setting of Python
#: allows.
_EXACT_BITS: Final = 2100
#: The number of digits that are written of a larger integer.
_DIGITS: Final = 16
#: The maximum number of characters of a value in a message.
_LONGEST: Final = 1000
#: The seconds that `datetime` supports, in the years 1 to 9999.
_FIRST_SECOND: Final = -62_135_596_800
_LAST_SECOND: Final = 253_402_300_799
#: The number of characters that messages show of a name or another part of a text.
_SHOWN: Final = 64


def number_text(number: int | Fraction) -> str:
    """Format an integer or a fraction of any size.

    Python refuses to format numbers of more than 4,300 digits, and takes long for them. A number with more than about
    630 digits is formatted as its first 16 digits and an exponent.

    >>> from fractions import Fraction
    >>> number_text(-12), number_text(2 * 10**5000), number_text(Fraction(7, 2))
    ('-12', '2.000000000000000e+5000', '7/2')
    """
    if number.denominator != 1:
        return f"{number_text(number.numerator)}/{number_text(number.denominator)}"
    number = number.numerator
    if number.bit_length() <= _EXACT_BITS:
        return str(number)
    # The estimate is one too low at most.
    exponent = int((number.bit_length() - 1) * log10(2))
    first = str(abs(number) // 10 ** (exponent - _DIGITS))
    exponent += len(first) - _DIGITS - 1
    return f"{'-' if number < 0 else ''}{first[0]}.{first[1:_DIGITS]}e+{exponent}"


def time_text(second: int, *, places: str = "minutes") -> str:
    """Format a second since 1970 in UTC; dates after the year 9999 have no form.

    >>> time_text(1_795_824_000), time_text(10**30)
    ('2026-11-28 00:00 UTC', 'after the year 9999')
    """
    if second > _LAST_SECOND:
        return "after the year 9999"
    from datetime import datetime, timedelta  # noqa: PLC0415 - takes long to import, and few texts have a time

    # Without a zone, whose name the text would contain.
    moment = datetime(1970, 1, 1) + timedelta(seconds=max(second, _FIRST_SECOND))  # noqa: DTZ001 - as above
    return f"{moment.isoformat(' ', places)} UTC"


def value_text(value: object) -> str:
    """Format a value for an error: its representation, or the beginning of a long one."""
    text = _representation(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _representation(value: object) -> str:
    """Return the representation of any value; only its type if it has none."""
    if type(value) is int:
        return number_text(value)
    try:
        return str.__str__(repr(value))
    except Exception:  # noqa: BLE001 - it may be of a foreign class, and contain numbers that are too long for Python
        return f"<{type(value).__name__}>"


def fields_text(value: object, fields: Mapping[str, object]) -> str:
    """Return the representation of a value with named fields, whose numbers may have any size."""
    return f"{type(value).__name__}({', '.join(f'{name}={value_text(field)}' for name, field in fields.items())})"


def cut(text: str, length: int = _SHOWN) -> str:
    """Return a text, truncated if it is long.

    >>> cut("ana"), len(cut("a" * 1000))
    ('ana', 67)
    """
    # The methods of a subclass may do anything.
    text = str.__str__(text)
    return text if len(text) <= length else f"{text[:length]}..."


def quote(text: str) -> str:
    """Quote a text for a message; a long text is truncated.

    >>> quote("ana"), quote("a" * 100)
    ("'ana'", "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa'...")
    """
    text = str.__str__(text)
    return repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r}..."


class ErrorCode(NamedTuple):
    """The meaning of a code of errors."""

    #: What has happened, as a sentence.
    meaning: str
    #: The status of an HTTP response for such an error.
    status: int


#: The codes of all errors. A code never changes its meaning.
ERROR_CODES: Final[Mapping[str, ErrorCode]] = {
    "argument-invalid": ErrorCode("An argument has a wrong type or value.", 400),
    "quantity-invalid": ErrorCode("A text is not a quantity.", 400),
    "partition-unknown": ErrorCode("The partition does not exist.", 404),
    "application-unknown": ErrorCode("The application does not exist.", 404),
    "allocation-unknown": ErrorCode("The allocation does not exist.", 404),
    "queue-unknown": ErrorCode("The queue does not exist.", 404),
    "node-unknown": ErrorCode("The node does not exist.", 404),
    "tree-unknown": ErrorCode("No quota model has such a tree.", 404),
    "session-unknown": ErrorCode("The session does not exist.", 404),
    "object-unknown": ErrorCode("Another object that the call names does not exist.", 404),
    "not-tracked": ErrorCode("A manager holds nothing for the user, application and queue of a release.", 404),
    "id-in-use": ErrorCode("The id or name belongs to another object, or to one with other properties.", 409),
    "partition-closed": ErrorCode("The partition is closed, and accepts no more requests.", 409),
    "application-failing": ErrorCode("The application is failing, and gets no more allocations.", 409),
    "not-empty": ErrorCode("The object that would be removed still has allocations.", 409),
    "plan-stale": ErrorCode("Something that the plan depends on has changed; make a new plan.", 409),
    "unconfirmed": ErrorCode("The call lowers limits or ends a partition, which has to be confirmed.", 409),
    "state-conflict": ErrorCode("The state of the object forbids the operation.", 409),
    "release-invalid": ErrorCode("A manager would release more than is held, or end a holder of resources.", 409),
    "call-reentrant": ErrorCode("The call was made in the middle of another operation of the same thread.", 409),
    "forbidden": ErrorCode("The role of the client does not allow the operation.", 403),
    "operation-unavailable": ErrorCode("This kind of connection or process does not have the operation.", 409),
    "grant-denied": ErrorCode("A limit does not allow the work of a host, or the quota service does not answer.", 429),
    "config-invalid": ErrorCode("The configuration has problems; nothing has changed.", 422),
    "group-invalid": ErrorCode("A change of elastic groups violates rules; nothing has changed.", 422),
    "manifest-invalid": ErrorCode("A manifest has a wrong value.", 422),
    "workload-invalid": ErrorCode("A workload file has an error.", 422),
    "invariant-violated": ErrorCode("A self-check found counters that do not agree: a bug in ugm.", 500),
    "unavailable": ErrorCode(
        "The store or the leader of the partition cannot be used now. A change may or may not have taken effect.", 503
    ),
    "store-damaged": ErrorCode("The stored data are damaged.", 503),
    "session-fenced": ErrorCode("The session of the client was fenced.", 503),
    "protocol-error": ErrorCode("The service and the client do not understand each other, or the token is wrong.", 503),
}


class UgmError(Exception):
    """The base class of all errors of ugm.

    Attributes:
        code: a stable identifier for programs, one of `ugm.errors.ERROR_CODES`.
    """

    code: str = "unavailable"

    def __repr__(self) -> str:
        # That of `Exception` fails if an argument has no representation.
        return f"{type(self).__name__}({', '.join(map(_representation, self.args))})"


class OutageError(UgmError):
    """The store or the leader of a partition cannot be used now; the base class of their errors.

    The arguments of the call are not the reason. A change may or may not have taken effect. A later repetition of the
    call can succeed. These errors are permanent for the partition or connection that raises them:
    `ugm.store.StoreDeposedError`, `ugm.store.StoreDamagedError`, `ugm.service.FencedError` and
    `ugm.service.ProtocolError`.
    """


class QuantityError(UgmError, ValueError):
    """A text is not a quantity.

    Attributes:
        text: the text.
        reason: the problem, as the end of a sentence.
    """

    code = "quantity-invalid"

    def __init__(self, text: str, reason: str) -> None:
        super().__init__(text, reason)
        self.text: Final = text
        self.reason: Final = reason

    def __str__(self) -> str:
        return f"{value_text(self.text)} is not a quantity: {self.reason}"


class RequestError(UgmError, ValueError):
    """An argument of a call is not valid.

    Attributes:
        argument: the name of the argument.
        value: the value that was passed.
        reason: the problem, as the end of a sentence.
    """

    def __init__(self, argument: str, value: object, reason: str, code: str = "argument-invalid") -> None:
        super().__init__(argument, value, reason, code)
        self.argument: Final = argument
        self.value: Final = value
        self.reason: Final = reason
        self.code = code

    def __str__(self) -> str:
        return f"{self.argument} {value_text(self.value)}: {self.reason}"


class NotTrackedError(UgmError, LookupError):
    """A release names a user, application or queue for which nothing is held.

    Attributes:
        application_id: the application named in the call.
        queue_path: the queue named in the call.
        user: the user named in the call.
        reason: the one of the three that is unknown, as the end of a sentence.
    """

    code = "not-tracked"

    def __init__(self, application_id: str, queue_path: str, user: str, reason: str) -> None:
        super().__init__(application_id, queue_path, user, reason)
        self.application_id: Final = application_id
        self.queue_path: Final = queue_path
        self.user: Final = user
        self.reason: Final = reason

    def __str__(self) -> str:
        application, user, queue = map(value_text, (self.application_id, self.user, self.queue_path))
        return f"application {application} of user {user} in {queue}: {self.reason}"


class ReleaseError(UgmError, ValueError):
    """A release exceeds the resources that an application holds, or would end it while it still holds some.

    Attributes:
        application_id: the application named in the call.
        queue_path: the queue named in the call.
        resource: the resource.
        held: the amount that the application holds in that queue, in base units.
        released: the amount that the call releases.
    """

    code = "release-invalid"

    def __init__(self, application_id: str, queue_path: str, resource: str, held: int, released: int) -> None:
        super().__init__(application_id, queue_path, resource, held, released)
        self.application_id: Final = application_id
        self.queue_path: Final = queue_path
        self.resource: Final = resource
        self.held: Final = held
        self.released: Final = released

    def __str__(self) -> str:
        held, released, left = map(number_text, (self.held, self.released, self.held - self.released))
        application, queue = value_text(self.application_id), value_text(self.queue_path)
        where = f"application {application} in {queue} holds {held} {self.resource}"
        if self.released > self.held:
            return f"{where} and cannot give back {released}"
        return f"{where} and cannot end with {left} left"


class ResourceNameWarning(UserWarning):
    """A request names a resource that no limit names, but whose name resembles that of a limited one.

    Each partition warns once for each name. A closed list of resources in the configuration makes it an error.
    """


class ReentrantCallError(UgmError, RuntimeError):
    """An operation was called in the middle of another operation of the same thread on the same object.

    The caller was a signal handler, a finalizer or a quota model. Such code should defer the call, for example by
    setting a flag. The call has changed nothing.
    """

    code = "call-reentrant"

    def __str__(self) -> str:
        return "called in the middle of another operation of the same thread, by a signal handler, finalizer or model"


class Problem(NamedTuple):
    """One problem of a configuration, with its place.

    Problems are ordered by place, like the file.
    """

    file: str
    #: Counted from 1; 0 if the problem has no place in the text, for example if the file cannot be read.
    line: int
    column: int
    #: For example ``partitions[0].queues[0].limits[2].users``.
    path: str
    #: A stable identifier for programs, for example ``limit-user-duplicate``.
    code: str
    #: The message for people.
    message: str
    #: The line of the text, and a mark under the place in a second line; empty if the text is not known.
    excerpt: str = ""

    def __str__(self) -> str:
        at = f":{self.line}:{self.column}" if self.line else ""
        place = f"{self.path}: " if self.path else ""
        return printable(f"{self.file}{at}: {place}{self.message} [{self.code}]")

    def for_people(self) -> str:
        """Return the problem with the line of the text and a mark under the place."""
        return "\n".join((str(self), *(f"    {line}" for line in self.excerpt.splitlines())))


def printable(text: str) -> str:
    r"""Escape characters that are not printable, such as line breaks and control sequences of terminals.

    >>> print(printable("two" + chr(10) + "lines, " + chr(27) + "[31mred"))
    two\nlines, \x1b[31mred
    """
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


class ConfigError(UgmError, ValueError):
    """A configuration is not valid. No part of it has taken effect.

    Attributes:
        problems: all problems, in the order of the file; never empty.
    """

    code = "config-invalid"

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        super().__init__(problems)
        self.problems: Final = problems

    def __str__(self) -> str:
        return "\n".join(problem.for_people() for problem in self.problems)


class InvariantError(UgmError):
    """A self-check found counters that do not agree with the applications: a bug in ugm, or faulty memory.

    Attributes:
        findings: a message for each difference; never empty.
    """

    code = "invariant-violated"

    def __init__(self, findings: tuple[str, ...]) -> None:
        super().__init__(findings)
        self.findings: Final = findings

    def __str__(self) -> str:
        return "\n".join(self.findings)
