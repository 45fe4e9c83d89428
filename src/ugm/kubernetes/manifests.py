"""Fields of manifests, and the error that names the place of a wrong field.

Manifests come from outside, so every field is checked when it is read. A place is written as in error messages of
Kubernetes: ``spec.containers[1].resources.requests.memory``, or ``requests[nvidia.com/gpu]`` for a name with other
characters than letters, digits, ``_`` and ``-``.

As in Kubernetes, a field that is null or empty is absent. Fields that are not read are not checked.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from ugm.errors import QuantityError, RequestError, UgmError, printable
from ugm.identity import MAX_NAME, ROOT, canonical_path
from ugm.kubernetes.quantities import parse_quantity
from ugm.resources import MAX_QUANTITY, MAX_RESOURCE_NAME, VCORE, Resource

__all__ = ["CPU", "Fields", "ManifestError", "read_manifest", "read_object"]

#: The name of ``vcore`` in Kubernetes.
CPU: Final = "cpu"

_PLAIN: Final = re.compile(r"[A-Za-z0-9_-]+")

#: Shortens values: with YAML aliases, a small manifest may have a very large representation.
_SHORT: Final = reprlib.Repr()
_SHORT.maxstring = 200
_SHORT.maxlevel = 2


class ManifestError(UgmError, ValueError):
    """A value in a manifest is not valid.

    Attributes:
        place: the place in the manifest.
        value: the value found there; None if there is none.
        reason: the problem, as the end of a sentence.
    """

    code = "manifest-invalid"

    def __init__(self, place: str, value: object, reason: str) -> None:
        super().__init__(place, value, reason)
        self.place: Final = place
        self.value: Final = value
        self.reason: Final = reason

    def __str__(self) -> str:
        # The place may contain a key with a lone surrogate, which cannot be encoded.
        return printable(f"{self.place} {_SHORT.repr(self.value)}: {self.reason}")


class Fields(NamedTuple):
    """A mapping in a manifest, whose fields are checked when they are read."""

    values: Mapping[str, object]
    #: The place of the mapping; empty for the manifest itself.
    place: str = ""

    def place_of(self, name: object) -> str:
        """Return the place of a field.

        >>> labels = Fields({}, "metadata.labels")
        >>> labels.place_of("queue"), labels.place_of("yunikorn.apache.org/queue")
        ('metadata.labels.queue', 'metadata.labels[yunikorn.apache.org/queue]')
        """
        if not isinstance(name, str):
            return f"{self.place}[{_SHORT.repr(name)}]"
        if not _PLAIN.fullmatch(name) or len(name) > MAX_NAME:
            return f"{self.place}[{name[:MAX_NAME]}]"
        return f"{self.place}.{name}" if self.place else name

    def error(self, name: str, reason: str) -> ManifestError:
        """Return the error of a field."""
        return ManifestError(self.place_of(name), self.values.get(name), reason)

    def mapping(self, name: str) -> Fields:
        """Return the mapping in a field; empty if the field is absent.

        Raises:
            ManifestError: the value is not a mapping.
        """
        value = self.values.get(name)
        if value is not None and not isinstance(value, Mapping):
            raise self.error(name, "expected a mapping")
        return Fields(value or {}, self.place_of(name))

    def at(self, path: Iterable[str]) -> Fields:
        """Return the mapping at a path of fields; empty if one of them is absent.

        Raises:
            ManifestError: a value on the path is not a mapping.

        >>> Fields({"spec": {"template": {"kind": "Pod"}}}).at(["spec", "template"])
        Fields(values={'kind': 'Pod'}, place='spec.template')
        """
        found = self
        for name in path:
            found = found.mapping(name)
        return found

    def mappings(self, name: str) -> list[Fields]:
        """Return the list of mappings in a field; empty if the field is absent.

        Raises:
            ManifestError: the value is not a list of mappings.
        """
        value = self.values.get(name)
        if value is not None and not isinstance(value, list | tuple):
            raise self.error(name, "expected a list")
        elements = [Fields(element, f"{self.place_of(name)}[{at}]") for at, element in enumerate(value or ())]
        for element in elements:
            if not isinstance(element.values, Mapping):
                raise ManifestError(element.place, element.values, "expected a mapping")
        return elements

    def text(self, name: str) -> str | None:
        """Return the text in a field; None if the field is absent.

        Raises:
            ManifestError: the value is not a text, for example a number without quotes.
        """
        value = self.values.get(name)
        if value is not None and not isinstance(value, str):
            raise self.error(name, "expected a text")
        return value or None

    def name(self, name: str) -> str | None:
        """Return the name in a field; None if the field is absent.

        Raises:
            ManifestError: the value is not a text of at most 256 characters.
        """
        found = self.text(name)
        if found is not None and len(found) > MAX_NAME:
            raise self.error(name, f"expected a name of 1 to {MAX_NAME} characters")
        return found

    def queue(self, name: str) -> str | None:
        """Return the queue in a field, as written, with or without ``root.`` before it; None if the field is absent.

        Raises:
            ManifestError: the value is not a valid queue name.
        """
        queue = self.text(name)
        if queue is None:
            return None
        qualified = queue.lower() == ROOT or queue.lower().startswith(f"{ROOT}.")
        try:
            canonical_path(queue if qualified else f"{ROOT}.{queue}")
        except RequestError:
            raise self.error(name, "expected queue names separated by single dots") from None
        return queue

    def amounts(self) -> Resource:
        """Return the quantities of all fields in base units; ``cpu`` becomes ``vcore``, other names stay as they are.

        Raises:
            ManifestError: a value is not a quantity, is negative, or exceeds a signed 64-bit integer, which Kubernetes
                uses for amounts.
        """
        return Resource({VCORE if name == CPU else name: self._amount(name) for name in self.values})

    def _amount(self, name: str) -> int:
        if type(name) is not str or not 0 < len(name) <= MAX_RESOURCE_NAME:
            raise self.error(name, "expected a resource name of 1 to 256 characters")
        if name == VCORE:
            raise self.error(name, f"unknown resource in Kubernetes; expected {CPU!r}")
        try:
            amount = parse_quantity(self.values[name], cpu=name == CPU)
        except QuantityError as error:
            raise self.error(name, error.reason) from error
        if amount < 0:
            raise self.error(name, "expected a quantity of at least 0")
        if amount > MAX_QUANTITY:
            raise self.error(name, f"expected an amount of at most {MAX_QUANTITY}")
        return amount


def read_manifest(manifest: Mapping[str, object], kind: str) -> Fields:
    """Return the fields of a manifest; one without a kind is accepted.

    The elements of a list that Kubernetes returns have no kind.

    Raises:
        ManifestError: the manifest is not a mapping, or has another kind.
    """
    if not isinstance(manifest, Mapping):
        raise ManifestError("manifest", manifest, "expected a mapping")
    if manifest.get("kind") not in (None, kind):
        raise ManifestError("kind", manifest["kind"], f"expected {kind!r}")
    return Fields(manifest)


def read_object(manifest: Mapping[str, object], kind: str) -> tuple[str, Fields]:
    """Return the name and the metadata of an object that must have a name.

    Raises:
        ManifestError: the manifest has another kind or no name.
    """
    metadata = read_manifest(manifest, kind).mapping("metadata")
    name = metadata.name("name")
    if name is None:
        raise ManifestError(metadata.place_of("name"), None, "expected a name")
    return name, metadata
