"""Functions that read fields of manifests, and the error that names the place of a wrong field.

Manifests come from outside, so every field is checked when it is read. A place is written as in error messages of
Kubernetes: ``spec.containers[1].resources.requests.memory``, or ``requests[nvidia.com/gpu]`` for a name with other
characters than letters, digits, ``_`` and ``-``.

As in Kubernetes, a field that is null or empty is absent. Fields that are not read are not checked.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Mapping, Sequence
from typing import Final

from ugm.errors import QuantityError, RequestError, UgmError
from ugm.identity import MAX_NAME, ROOT, canonical_path
from ugm.kubernetes.quantities import parse_quantity
from ugm.resources import MAX_QUANTITY, MAX_RESOURCE_NAME, VCORE, Resource

__all__ = [
    "ManifestError",
    "below",
    "check_kind",
    "read_amounts",
    "read_list",
    "read_mapping",
    "read_name",
    "read_queue",
    "read_text",
]

#: The name of ``vcore`` in Kubernetes.
CPU: Final = "cpu"

_PLAIN: Final = re.compile(r"[A-Za-z0-9_-]+")

#: Shortens values: with YAML aliases, a small manifest may have a very large representation.
_SHORT: Final = reprlib.Repr()
_SHORT.maxstring = 200
_SHORT.maxlevel = 2
#: The number of characters that a place shows of a long name.
_LONG: Final = 64


class ManifestError(UgmError, ValueError):
    """A value in a manifest is not valid.

    Attributes:
        place: the place in the manifest.
        value: the value found there; None if there is none.
        reason: the problem, as the end of a sentence.
    """

    def __init__(self, place: str, value: object, reason: str) -> None:
        super().__init__(place, value, reason)
        self.place: Final = place
        self.value: Final = value
        self.reason: Final = reason

    def __str__(self) -> str:
        return f"{self.place} {_shown(self.value)}: {self.reason}"


def _shown(value: object) -> str:
    try:
        return _SHORT.repr(value)
    except ValueError:  # an integer with more digits than Python writes
        return type(value).__name__


def below(place: str, name: object) -> str:
    """Return the place of a field.

    >>> below("metadata.labels", "queue"), below("metadata.labels", "yunikorn.apache.org/queue")
    ('metadata.labels.queue', 'metadata.labels[yunikorn.apache.org/queue]')
    """
    if not isinstance(name, str):
        return f"{place}[{_shown(name)}]"
    if not _PLAIN.fullmatch(name) or len(name) > MAX_NAME:
        return f"{place}[{name if len(name) <= MAX_NAME else name[:_LONG] + '...'}]"
    return f"{place}.{name}" if place else name


def check_kind(manifest: Mapping[str, object], kind: str) -> None:
    """Raise an error for a manifest of another kind; a manifest without a kind is accepted.

    The elements of a list that Kubernetes returns have no kind.

    Raises:
        ManifestError: the manifest is not a mapping, or has another kind.
    """
    if not isinstance(manifest, Mapping):
        raise ManifestError("manifest", manifest, "expected a mapping")
    if manifest.get("kind") not in (None, kind):
        raise ManifestError("kind", manifest["kind"], f"expected {kind!r}")


def read_mapping(parent: Mapping[str, object], name: str, place: str = "") -> Mapping[str, object]:
    """Return the mapping in a field of *parent*, whose place is *place*; empty if the field is absent.

    Raises:
        ManifestError: the value is not a mapping.
    """
    value = parent.get(name)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ManifestError(below(place, name), value, "expected a mapping")
    return value


def read_list(parent: Mapping[str, object], name: str, place: str) -> Sequence[Mapping[str, object]]:
    """Return the list of mappings in a field; empty if the field is absent.

    Raises:
        ManifestError: the value is not a list of mappings.
    """
    value = parent.get(name)
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        raise ManifestError(below(place, name), value, "expected a list")
    for number, element in enumerate(value):
        if not isinstance(element, Mapping):
            raise ManifestError(f"{below(place, name)}[{number}]", element, "expected a mapping")
    return value


def read_text(parent: Mapping[str, object], name: str, place: str) -> str | None:
    """Return the text in a field; None if the field is absent.

    Raises:
        ManifestError: the value is not a text, for example a number without quotes.
    """
    value = parent.get(name)
    if value is not None and not isinstance(value, str):
        raise ManifestError(below(place, name), value, "expected a text")
    return value or None


def read_name(parent: Mapping[str, object], name: str, place: str) -> str | None:
    """Return the name in a field; None if the field is absent.

    Raises:
        ManifestError: the value is not a text of at most 256 characters.
    """
    found = read_text(parent, name, place)
    if found is not None and len(found) > MAX_NAME:
        raise ManifestError(below(place, name), found, f"expected a name of 1 to {MAX_NAME} characters")
    return found


def read_queue(parent: Mapping[str, object], name: str, place: str) -> str | None:
    """Return the queue named in a field, as written, with or without ``root.`` before it; None if the field is absent.

    Raises:
        ManifestError: the value is not a valid queue name.
    """
    queue = read_text(parent, name, place)
    if queue is None:
        return None
    qualified = queue.lower() == ROOT or queue.lower().startswith(f"{ROOT}.")
    try:
        canonical_path(queue if qualified else f"{ROOT}.{queue}")
    except RequestError:
        raise ManifestError(below(place, name), queue, "expected queue names separated by single dots") from None
    return queue


def read_amounts(quantities: Mapping[str, object], place: str) -> Resource:
    """Return quantities as a vector in base units; ``cpu`` becomes ``vcore``, other names stay as they are.

    Raises:
        ManifestError: a value is not a quantity, is negative, or exceeds a signed 64-bit integer, which Kubernetes
            uses for amounts.
    """
    amounts = {}
    for name, quantity in quantities.items():
        where = below(place, name)
        if type(name) is not str or not 0 < len(name) <= MAX_RESOURCE_NAME:
            raise ManifestError(where, quantity, "expected a resource name of 1 to 256 characters")
        if name == VCORE:
            raise ManifestError(where, quantity, f"unknown resource in Kubernetes; expected {CPU!r}")
        amounts[VCORE if name == CPU else name] = _amount(quantity, where, cpu=name == CPU)
    return Resource(amounts)


def _amount(quantity: object, where: str, *, cpu: bool) -> int:
    try:
        amount = parse_quantity(quantity, cpu=cpu)
    except QuantityError as error:
        raise ManifestError(where, quantity, error.reason) from error
    if amount < 0:
        raise ManifestError(where, quantity, "expected a quantity of at least 0")
    if amount > MAX_QUANTITY:
        raise ManifestError(where, quantity, f"expected an amount of at most {MAX_QUANTITY}")
    return amount
