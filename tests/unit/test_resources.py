"""Resource vectors and the quantity syntax."""

from __future__ import annotations

import copy
import pickle
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.tracking_fixtures import Wrong
from ugm import QuantityError, RequestError, Resource
from ugm.resources import format_amount, parse_quantity
from ugm.testing import resources

GIB = 2**30


@given(resources(), st.integers(-5, 5))
def test_multiplied(vector: Resource, count: int) -> None:
    """A vector times a count is that many of it, in either order, and nothing else can multiply it."""
    assert vector * count == count * vector == Resource({name: amount * count for name, amount in vector.items()})
    assert sum([vector] * 3, Resource()) == vector * 3
    for wrong in (1.5, True, "2", vector):
        with pytest.raises(TypeError):
            vector * wrong  # type: ignore[operator] # that is the test


@given(resources(), resources())
def test_fits_in(usage: Resource, limit: Resource) -> None:
    """What a limit does not name is unlimited, or nothing of it is there where it is closed; a 0 always fits."""
    requested = {name: amount for name, amount in usage.items() if amount}

    assert usage.fits_in(limit) == all(amount <= limit[name] for name, amount in requested.items() if name in limit)
    assert usage.fits_in(limit, closed=True) == all(amount <= limit.get(name, 0) for name, amount in requested.items())
    assert usage.fits_in(usage)
    assert usage.fits_in(usage, closed=True)
    assert usage.fits_in(None)
    assert usage.fits_in(None, closed=True) == (not requested)


def test_fits_in_overdrawn_headroom() -> None:
    """Below zero nothing fits but what is not asked for."""
    assert not Resource(vcore=1).fits_in(Resource(vcore=-1))
    assert Resource(vcore=0, memory=1).fits_in(Resource(vcore=-1))


def test_not_equal_to_a_dict() -> None:
    """A vector is equal to vectors only, as its hash promises."""
    assert Resource(vcore=1) != {"vcore": 1}


@pytest.mark.parametrize("amount", [True, 1.0, 1.5, float("nan"), "1", None])
def test_amounts_are_ints(amount: Wrong) -> None:
    """Booleans, floats and texts are no amounts."""
    with pytest.raises(RequestError) as caught:
        Resource(vcore=amount)

    assert str(caught.value) == f"vcore {amount!r}: an amount is an int, in base units"


@pytest.mark.parametrize("name", ["", 1, None, b"vcore"])
def test_names_are_texts(name: Wrong) -> None:
    """A resource has a name."""
    with pytest.raises(RequestError) as caught:
        Resource({name: 1})

    assert str(caught.value) == f"resource {name!r}: a resource name is a text of 1 to 256 characters"


@given(resources(smallest=-9), resources(smallest=-9))
def test_adding_and_subtracting(one: Resource, other: Resource) -> None:
    """Subtracting undoes adding, name by name; a name that was missing stays as a zero."""
    total = one + other

    assert all(total[name] == one.get(name, 0) + other.get(name, 0) for name in total)
    assert (total - other).without_zeros() == one.without_zeros()


@pytest.mark.parametrize("vector", [Resource(), Resource(vcore=1), Resource({"nvidia.com/gpu": -2, "memory": 0})])
def test_repr_evaluates(vector: Resource) -> None:
    """The representation is Python for the same vector."""
    assert eval(repr(vector)) == vector  # noqa: S307 - of a text made here


def test_str() -> None:
    """As text, a vector is in the units that people use."""
    assert str(Resource(vcore=2500, memory=4 * GIB)) == "memory 4Gi, vcore 2500m"
    assert str(Resource()) == "nothing"


@pytest.mark.parametrize("vector", [Resource(), Resource({"nvidia.com/gpu": 2, "vcore": 0})])
def test_pickle_and_copy(vector: Resource) -> None:
    """Vectors survive pickling and copying."""
    for same in (pickle.loads(pickle.dumps(vector)), copy.copy(vector), copy.deepcopy(vector)):  # noqa: S301 - made here
        assert same == vector


def test_parse_takes_texts() -> None:
    """A number is no text: whether it counts cores or thousandths would be a guess."""
    with pytest.raises(QuantityError, match="'4' is not a quantity: expected a text such as '4Gi', found int"):
        Resource.parse(vcore=4)  # type: ignore[arg-type] # what is tested


def test_parse_refuses() -> None:
    """A text that is no quantity is quoted in the error."""
    with pytest.raises(QuantityError) as caught:
        Resource.parse(memory="4 GiB")

    assert (
        str(caught.value)
        == "'4 GiB' is not a quantity: unknown suffix 'GiB'; write 4Gi (known: k M G T P E Ki Mi Gi Ti Pi Ei)"
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "expected digits and at most one suffix"),
        ("k", "expected digits and at most one suffix"),
        ("-1", "must not be negative"),
        ("1.5", "expected digits and at most one suffix"),
        ("1_000", "expected digits and at most one suffix; write 1000"),
        ("1e3", "expected digits and at most one suffix"),
        ("0x10", "expected digits and at most one suffix"),
        ("\u0661", "expected digits and at most one suffix"),
        ("1K", "unknown suffix 'K'; write 1k or 1Ki (known: k M G T P E Ki Mi Gi Ti Pi Ei)"),
        ("1mi", "unknown suffix 'mi'; write 1Mi (known: k M G T P E Ki Mi Gi Ti Pi Ei)"),
        ("100m", "unknown suffix 'm'; write 100M or 100Mi (known: k M G T P E Ki Mi Gi Ti Pi Ei)"),
        (str(2**63), "too large (allowed: up to 9223372036854775807 base units)"),
        ("8Ei", "too large (allowed: up to 9223372036854775807 base units)"),
        ("9" * 100_000, "too large (allowed: up to 9223372036854775807 base units)"),
    ],
)
def test_no_quantities(text: str, reason: str) -> None:
    """Everything else is refused, and the reason given."""
    with pytest.raises(QuantityError) as caught:
        parse_quantity(text)

    assert caught.value.text == text
    assert caught.value.reason == reason


@pytest.mark.parametrize(("text", "amount"), [("2", 2000), ("250m", 250), ("1k", 10**6), ("1 m", 1)])
def test_vcore_quantities(text: str, amount: int) -> None:
    """Of vcore a number counts whole cores, and ``m`` thousandths."""
    assert parse_quantity(text, vcore=True) == amount


def test_vcore_overflow() -> None:
    """Whole cores are held to 64 bits in thousandths."""
    assert parse_quantity(f"{2**63 - 1}m", vcore=True) == 2**63 - 1
    with pytest.raises(QuantityError):
        parse_quantity(str(2**63 // 1000 + 1), vcore=True)


@pytest.mark.parametrize(
    ("name", "amount", "text"),
    [
        ("vcore", 0, "0"),
        ("vcore", -1500, "-1500m"),
        ("memory", 0, "0"),
        ("memory", 1000, "1k"),
        ("memory", 1024, "1Ki"),
        ("memory", 1023, "1023"),
        ("memory", -2 * GIB, "-2Gi"),
        ("pods", 3000, "3000"),
    ],
)
def test_format_amount(name: str, amount: int, text: str) -> None:
    """Amounts are written exactly, in the largest unit that fits."""
    assert format_amount(name, amount) == text


@given(st.sampled_from(["vcore", "memory", "pods"]), st.integers(0, 2**63 - 1))
def test_format_and_parse(name: str, amount: int) -> None:
    """What is written is read back as the same amount."""
    assert parse_quantity(format_amount(name, amount), vcore=name == "vcore") == amount


@given(st.text() | st.from_regex(r"\A[0-9]+ ?[a-zA-Z]{0,3}\Z"), st.booleans())
def test_any_text_is_read_or_refused(text: str, vcore: bool) -> None:  # noqa: FBT001 - drawn
    """A text is a quantity or a `QuantityError`, and nothing else happens."""
    with suppress(QuantityError):
        assert 0 <= parse_quantity(text, vcore=vcore) < 2**63


class Integer:
    """An integer of another library: it has ``__index__``, like those of numpy."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


def test_integers_of_other_libraries_become_ints() -> None:
    """A vector stores an integer of another type as an exact int."""
    vector = Resource({"memory": Integer(2**70)}, vcore=Integer(500))  # type: ignore[dict-item, arg-type]
    assert vector == Resource(memory=2**70, vcore=500)
    assert {type(amount) for amount in vector.values()} == {int}
    assert pickle.loads(pickle.dumps(vector)) == vector  # noqa: S301 - our own bytes
