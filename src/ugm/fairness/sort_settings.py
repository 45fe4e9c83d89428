"""The settings of a configuration that concern the scheduling order.

They are properties of queues, as in Apache YuniKorn:

=============================  ==============================================================================
``application.sort.policy``    the order of the applications of a leaf: ``fifo`` or ``fair``; inherited
``application.sort.priority``  whether priority is compared first: ``enabled`` or ``disabled``; inherited
``priority.offset``            a number that is added to the priority of the queue
``priority.policy``            ``default``, or ``fence``: the offset alone is the priority of the queue
=============================  ==============================================================================

An unknown value counts as the default; `ugm.config.review_config` warns about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, final

from ugm.configuration import PartitionConfig, QueueConfig
from ugm.fairness.order_tree import SortSettings
from ugm.identity import ROOT, ancestors

__all__ = ["PROPERTIES", "QueueSettings", "is_known_value"]

_POLICY: Final = "application.sort.policy"
_PRIORITY: Final = "application.sort.priority"
_OFFSET: Final = "priority.offset"
_FENCE: Final = "priority.policy"

#: The allowed values of each property, in words. ``stateaware`` is a former name of ``fifo``.
PROPERTIES: Final = {
    _POLICY: "'fifo', 'fair'",
    _PRIORITY: "'enabled', 'disabled'",
    _OFFSET: "a number of 32 bits",
    _FENCE: "'default', 'fence'",
}

_POLICIES: Final = {"fifo": "fifo", "fair": "fair", "stateaware": "fifo"}
_SWITCH: Final = {"enabled": True, "disabled": False}
_FENCES: Final = {"default": False, "fence": True}

_WORDS: Final[Mapping[str, Mapping[str, object]]] = {_POLICY: _POLICIES, _PRIORITY: _SWITCH, _FENCE: _FENCES}

_DEFAULT: Final = SortSettings()


def is_known_value(name: str, value: str) -> bool:
    """Return whether a property has a value that is allowed; any value of another property is."""
    words = _WORDS.get(name)
    if words is not None:
        return not value or value.lower() in words
    return name != _OFFSET or not value or _offset(value) is not None


def _offset(value: str) -> int | None:
    digits = value.removeprefix("-").removeprefix("+")
    if not digits.isascii() or not digits.isdecimal() or len(digits) > 10 or len(value) - len(digits) > 1:  # noqa: PLR2004 - digits of 2 ** 31
        return None
    number = int(value)
    return number if -(2**31) <= number < 2**31 else None


class _Configured(NamedTuple):
    settings: SortSettings
    #: The properties of the template for queues that are created below, if there is one.
    template: Mapping[str, str] | None


@final
class QueueSettings:
    """The settings of every queue of a configuration, and of queues that placement creates.

    Args:
        config: the configuration; None for none.
    """

    __slots__ = ("_configured",)

    def __init__(self, config: PartitionConfig | None) -> None:
        self._configured: Final[dict[str, _Configured]] = {}
        self._add(ROOT, QueueConfig(ROOT) if config is None else config.root, _DEFAULT)

    def _add(self, path: str, queue: QueueConfig, above: SortSettings) -> None:
        settings = _settings(queue.properties, above)
        template = None if queue.child_template is None else queue.child_template.properties
        self._configured[path] = _Configured(settings, template)
        for child in queue.queues:
            self._add(f"{path}.{child.name}", child, settings)

    def of(self, queue_path: str) -> SortSettings:
        """Return the settings of a queue.

        A queue that the configuration does not name inherits those of the nearest one that it names. The template that
        applies to it may set others.
        """
        known = self._configured.get(queue_path)
        if known is not None:
            return known.settings
        above = [self._configured[path] for path in ancestors(queue_path) if path in self._configured]
        template = next((one.template for one in above if one.template is not None), {})
        return _settings(template, above[0].settings)


def _settings(properties: Mapping[str, str], above: SortSettings) -> SortSettings:
    return SortSettings(
        _POLICIES.get(properties.get(_POLICY, "").lower(), above.policy),
        _SWITCH.get(properties.get(_PRIORITY, "").lower(), above.priority_first),
        _offset(properties.get(_OFFSET, "")) or 0,
        _FENCES.get(properties.get(_FENCE, "").lower(), False),
    )
