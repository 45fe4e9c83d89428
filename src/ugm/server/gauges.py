"""Gauges with units in their names, collected for one scrape."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Final, final

from prometheus_client.metrics_core import GaugeMetricFamily

from ugm.resources import MEMORY, VCORE, as_float

__all__ = ["Gauges", "label_text"]

#: The unit of ``vcore`` in a core.
_MILLI: Final = 1000


@final
class Gauges:
    """Gauges by name, each created with its first sample."""

    __slots__ = ("families",)

    def __init__(self) -> None:
        self.families: Final[dict[str, GaugeMetricFamily]] = {}

    def add(self, name: str, sentence: str, value: float, labels: Mapping[str, str]) -> None:
        """Add a sample."""
        family = self.families.get(name)
        if family is None:
            family = self.families[name] = GaugeMetricFamily(name, sentence, labels=tuple(labels))
        family.add_metric([label_text(label) for label in labels.values()], value)

    def add_amounts(
        self, name: str, sentence: str, amounts: Mapping[str, int] | None, labels: Mapping[str, str]
    ) -> None:
        """Add a sample for each resource, with its unit in the name of the metric."""
        for resource, amount in (amounts or {}).items():
            if resource == VCORE:
                self.add(f"{name}_cores", f"{sentence}, in cores.", as_float(Fraction(amount, _MILLI)), labels)
            elif resource == MEMORY:
                self.add(f"{name}_bytes", f"{sentence}: memory in bytes.", as_float(amount), labels)
            else:
                more = {**labels, "resource": resource}
                self.add(f"{name}_units", f"{sentence}: other resources in their unit.", as_float(amount), more)


def label_text(name: str) -> str:
    """Return a name with escapes for text that is not valid UTF-8, which would make the whole scrape fail."""
    return name.encode(errors="backslashreplace").decode()
