"""Reading manifests: plain mappings from somebody else's hand, and errors that name the place.

A place is written as Kubernetes writes it in its own errors: ``spec.containers[1].resources.requests.memory``, and
``requests[nvidia.com/gpu]`` where a name has signs of its own.

Fields that are absent, null or empty are the same, as they are to Kubernetes. Only fields that are read are checked.
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

#: What Kubernetes calls ``vcore``.
CPU: Final = "cpu"

_PLAIN: Final = re.compile(r"[A-Za-z0-9_-]+")

#: Shortens values: YAML's aliases make small manifests with endless representations.
_SHORT: Final = reprlib.Repr()
_SHORT.maxstring = 200
_SHORT.maxlevel = 2
#: How much of a long name a place shows.
_LONG: Final = 64


class ManifestError(UgmError, ValueError):
    """A manifest cannot be understood.

    Attributes:
        place: where in the manifest.
        value: what stands there; None if nothing does.
        reason: what is wrong with it, as the end of a sentence.
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
    """Refuse a manifest of another kind; the elements of a list from Kubernetes name none.

    Raises:
        ManifestError: it is no mapping, or it names another kind.
    """
    if not isinstance(manifest, Mapping):
        raise ManifestError("manifest", manifest, "expected a mapping")
    if manifest.get("kind") not in (None, kind):
        raise ManifestError("kind", manifest["kind"], f"expected {kind!r}")


def read_mapping(parent: Mapping[str, object], name: str, place: str = "") -> Mapping[str, object]:
    """Return the mapping in a field of *parent*, which stands at *place*.

    Raises:
        ManifestError: something else is there.
    """
    value = parent.get(name)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ManifestError(below(place, name), value, "expected a mapping")
    return value


def read_list(parent: Mapping[str, object], name: str, place: str) -> Sequence[Mapping[str, object]]:
    """Return the mappings listed in a field.

    Raises:
        ManifestError: something else is there.
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
    """Return the text in a field, or None.

    Raises:
        ManifestError: something else is there: a number without quotes, say, where Kubernetes expects a text.
    """
    value = parent.get(name)
    if value is not None and not isinstance(value, str):
        raise ManifestError(below(place, name), value, "expected a text")
    return value or None


def read_name(parent: Mapping[str, object], name: str, place: str) -> str | None:
    """Return the name in a field, or None.

    Raises:
        ManifestError: something else is there, or a text of more than 256 characters.
    """
    found = read_text(parent, name, place)
    if found is not None and len(found) > MAX_NAME:
        raise ManifestError(below(place, name), found, f"a name has 1 to {MAX_NAME} characters")
    return found


def read_queue(parent: Mapping[str, object], name: str, place: str) -> str | None:
    """Return the queue named in a field as it stands there, with or without ``root.`` before it, or None.

    Raises:
        ManifestError: no queue can have this name.
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
    """Return a list of resources in base units: ``cpu`` becomes ``vcore``, every other name stays.

    Raises:
        ManifestError: something is no quantity, is negative, or is more than a signed 64-bit integer holds, which is
            what Kubernetes counts in.
    """
    amounts = {}
    for name, quantity in quantities.items():
        where = below(place, name)
        if type(name) is not str or not 0 < len(name) <= MAX_RESOURCE_NAME:
            raise ManifestError(where, quantity, "a resource name is a text of 1 to 256 characters")
        if name == VCORE:
            raise ManifestError(where, quantity, f"Kubernetes has no {VCORE!r}; it is written as {CPU!r}")
        amounts[VCORE if name == CPU else name] = _amount(quantity, where, cpu=name == CPU)
    return Resource(amounts)


def _amount(quantity: object, where: str, *, cpu: bool) -> int:
    try:
        amount = parse_quantity(quantity, cpu=cpu)
    except QuantityError as error:
        raise ManifestError(where, quantity, error.reason) from error
    if amount < 0:
        raise ManifestError(where, quantity, "less than nothing")
    if amount > MAX_QUANTITY:
        raise ManifestError(where, quantity, "more than a signed 64-bit integer holds")
    return amount
