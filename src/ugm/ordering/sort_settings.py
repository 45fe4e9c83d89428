"""The settings of a configuration that concern the scheduling order.

They are properties of queues, as in Apache YuniKorn, which does not have ``share``:

=============================  ================================================================================
``application.sort.policy``    the order of the applications of a leaf: ``fifo``, ``fair`` or ``share``; inherited
``application.sort.priority``  whether priority is compared first: ``enabled`` or ``disabled``; inherited
``priority.offset``            a number that is added to the priority of the queue
``priority.policy``            ``default``, or ``fence``: the offset alone is the priority of the queue
``ugm.queue.sort.policy``      the order of child queues: ``fair`` by the part that they use, or ``fifo``; inherited
``ugm.reservation``            ``enabled`` or ``disabled``; see `ugm.partition.Reservation`
=============================  ================================================================================

An unknown value counts as the default, as in Apache YuniKorn; `ugm.config.review_config` warns about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, final

from ugm.configuration import PartitionConfig, QueueConfig
from ugm.configuration.scheduler import RESERVATION
from ugm.identity import ROOT, ancestors
from ugm.ordering.request_order import SortSettings

#: The property with the order of the applications of a leaf.
POLICY: Final = "application.sort.policy"
#: The property with the order of the children of a queue.
QUEUE_POLICY: Final = "ugm.queue.sort.policy"
_PRIORITY: Final = "application.sort.priority"
_OFFSET: Final = "priority.offset"
_FENCE: Final = "priority.policy"

#: The allowed values of each property, in words. ``stateaware`` is a former name of ``fifo``.
PROPERTIES: Final = {
    POLICY: "'fifo', 'fair', 'share'",
    _PRIORITY: "'enabled', 'disabled'",
    _OFFSET: "a number from -2147483648 to 2147483647",
    _FENCE: "'default', 'fence'",
    QUEUE_POLICY: "'fair', 'fifo'",
    RESERVATION: "'enabled', 'disabled'",
}

_POLICIES: Final = {"fifo": "fifo", "fair": "fair", "share": "share", "stateaware": "fifo"}
_SWITCH: Final = {"enabled": True, "disabled": False}
_FENCES: Final = {"default": False, "fence": True}
_QUEUE_POLICIES: Final = {"fair": False, "fifo": True}

_WORDS: Final[Mapping[str, Mapping[str, object]]] = {
    POLICY: _POLICIES,
    _PRIORITY: _SWITCH,
    _FENCE: _FENCES,
    QUEUE_POLICY: _QUEUE_POLICIES,
    RESERVATION: _SWITCH,
}

_DEFAULT: Final = SortSettings()


def is_valid_value(name: str, value: str) -> bool:
    """Return whether a value of a property is allowed; True if the property is not one of `PROPERTIES`."""
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

    #: Whether the priority of a queue may differ from that of its first request.
    has_offsets: bool
    #: Whether some queue does not compare priorities first.
    has_priority_last: bool
    #: Whether some queue orders requests by the shares of users.
    has_shares: bool
    #: Whether queues that placement creates may reserve capacity.
    has_reserving_template: bool

    def __init__(self, config: PartitionConfig | None) -> None:
        self._configured: Final[dict[str, _Configured]] = {}
        #: The settings of queues that the configuration does not name.
        self._created: Final[dict[str, SortSettings]] = {}
        self.has_offsets = self.has_priority_last = self.has_shares = self.has_reserving_template = False
        #: Whether all requests of one priority are ordered by the submission of their applications.
        self.is_by_submission: bool = True
        #: The configured queues that reserve capacity.
        self.reserving: list[str] = []
        self._add(ROOT, QueueConfig(ROOT) if config is None else config.root, _DEFAULT)

    def _add(self, path: str, queue: QueueConfig, above: SortSettings) -> None:
        settings = _settings(queue.properties, above)
        template = None if queue.child_template is None else queue.child_template.properties
        self._configured[path] = _Configured(settings, template)
        if settings.reserves:
            self.reserving.append(path)
        created = _settings(template or {}, settings)
        self.has_reserving_template |= created.reserves
        self.has_offsets |= any(one.offset or one.is_fenced for one in (settings, created))
        self.has_priority_last |= not (settings.priority_first and created.priority_first)
        self.has_shares |= "share" in {settings.policy, created.policy}
        self.is_by_submission &= all(one.by_submission and one.policy == "fifo" for one in (settings, created))
        for child in queue.queues:
            self._add(f"{path}.{child.name}", child, settings)

    @property
    def has_reservations(self) -> bool:
        """True if requests reserve capacity for some queue."""
        return bool(self.reserving) or self.has_reserving_template

    def reserves(self, queue_path: str) -> bool:
        """Return whether a queue reserves capacity."""
        known = self._configured.get(queue_path)
        if known is not None:
            return known.settings.reserves
        return self.has_reserving_template and self.of(queue_path).reserves

    def of(self, queue_path: str) -> SortSettings:
        """Return the settings of a queue.

        A queue that the configuration does not name inherits those of the nearest one that it names. The template that
        applies to it may set others.
        """
        known = self._configured.get(queue_path)
        if known is not None:
            return known.settings
        created = self._created.get(queue_path)
        if created is None:
            above = [self._configured[path] for path in ancestors(queue_path) if path in self._configured]
            template = next((one.template for one in above if one.template is not None), {})
            created = self._created[queue_path] = _settings(template, above[0].settings)
        return created


def _settings(properties: Mapping[str, str], above: SortSettings) -> SortSettings:
    return SortSettings(
        _POLICIES.get(properties.get(POLICY, "").lower(), above.policy),
        _SWITCH.get(properties.get(_PRIORITY, "").lower(), above.priority_first),
        _offset(properties.get(_OFFSET, "")) or 0,
        _FENCES.get(properties.get(_FENCE, "").lower(), False),
        _SWITCH.get(properties.get(RESERVATION, "").lower(), False),
        _QUEUE_POLICIES.get(properties.get(QUEUE_POLICY, "").lower(), above.by_submission),
    )
