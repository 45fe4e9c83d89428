"""The settings of a configuration that concern preemption.

They are properties of queues, as in Apache YuniKorn:

==========================  ===========================================================================
``preemption.policy``       ``default``, ``fence`` or ``disabled``; see `PreemptionPolicy`
``preemption.delay``        how long a request waits before it may preempt, 30 s by default; inherited
``quota.preemption.delay``  how long a queue may be above its maximum before it is reduced; 0: never reduced
==========================  ===========================================================================

A delay is a number with a unit, or several: ``90s``, ``1m30s``, ``1h``. Parts of a second are rounded up. An unknown
value counts as the default; `ugm.config.review_config` warns about it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Final, NamedTuple, final

from ugm.configuration import PartitionConfig, QueueConfig
from ugm.identity import ancestors
from ugm.preemption.facts import PreemptionPolicy, QueueFacts
from ugm.queues.specs import NO_QUOTA, Quota
from ugm.resources import Resource

__all__ = ["PROPERTIES", "PreemptionSettings", "is_valid_value"]

_POLICY: Final = "preemption.policy"
_DELAY: Final = "preemption.delay"
_REDUCTION_DELAY: Final = "quota.preemption.delay"

#: The allowed values of each property, in words.
PROPERTIES: Final = {
    _POLICY: "'default', 'fence', 'disabled'",
    _DELAY: "a duration, such as '30s' or '1m30s'",
    _REDUCTION_DELAY: "a duration, such as '30s' or '1m30s'",
}

_POLICIES: Final = {policy.value: policy for policy in PreemptionPolicy}
_PART: Final = re.compile(r"([0-9]{1,18})(?:\.([0-9]{1,9}))?(ns|us|ms|s|m|h)", re.ASCII)
_SECONDS: Final = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
}
#: The largest delay, in seconds: that of a duration in Apache YuniKorn.
_LONGEST: Final = 2**63 // 10**9
_LONGEST_TEXT: Final = 100


def is_valid_value(name: str, value: str) -> bool:
    """Return whether a value of a property is allowed; True if the property is not one of `PROPERTIES`."""
    if name == _POLICY:
        return not value or value.lower() in _POLICIES
    return name not in PROPERTIES or not value or _delay(value) is not None


def _delay(text: str) -> int | None:
    """Return a duration in whole seconds, rounded up; None if the text is not a duration."""
    if text == "0":
        return 0
    total, position = Fraction(), 0
    for found in _PART.finditer(text[:_LONGEST_TEXT]):
        if found.start() != position:
            return None
        whole, part, unit = found.groups()
        total += (int(whole) + Fraction(int(part or 0), 10 ** len(part or ""))) * _SECONDS[unit]
        position = found.end()
    if not position or position != len(text) or total > _LONGEST:
        return None
    return -(-total.numerator // total.denominator)


class _Settings(NamedTuple):
    policy: PreemptionPolicy | None
    delay: int | None
    reduction_delay: int


_NONE: Final = _Settings(None, None, 0)


@final
class PreemptionSettings:
    """The settings of every queue of a configuration, and of queues that placement creates.

    Args:
        config: the configuration; None for none.
    """

    __slots__ = ("_settings", "_templates", "are_reductions_enabled")

    #: Whether queues above their maximum are reduced: ``preemption.quotapreemptionenabled`` of the partition.
    are_reductions_enabled: bool

    def __init__(self, config: PartitionConfig | None) -> None:
        self.are_reductions_enabled = config is not None and config.preemption.quota_preemption_enabled is True
        self._settings: Final[dict[str, _Settings]] = {}
        self._templates: Final[dict[str, Mapping[str, str]]] = {}
        for path, queue in () if config is None else config.root.walk():
            self._add(path, queue)

    def _add(self, path: str, queue: QueueConfig) -> None:
        self._settings[path] = _settings(queue.properties) if queue.properties else _NONE
        if queue.child_template is not None:
            self._templates[path] = queue.child_template.properties

    def _of(self, queue_path: str) -> _Settings:
        settings = self._settings.get(queue_path)
        if settings is None:
            templates = (self._templates[path] for path in ancestors(queue_path) if path in self._templates)
            settings = _settings(next(templates, {}))
        return settings

    def reduction_delay(self, queue_path: str) -> int:
        """Return the time that a queue may be above its maximum, in seconds; 0: never reduced."""
        return self._of(queue_path).reduction_delay if self.are_reductions_enabled else 0

    def facts(self, queue_path: str, quota: Quota = NO_QUOTA, *, cluster: Resource | None = None) -> QueueFacts:
        """Return what a plan has to know about a queue.

        Args:
            queue_path: the queue. One that the configuration does not name has the settings of the template above.
            quota: its quota.
            cluster: the size of the cluster, for the root; None for no limit.
        """
        policy, delay, reduction_delay = self._of(queue_path)
        guaranteed, maximum = quota.guaranteed or _NOTHING, quota.max_resources or _NOTHING
        if cluster is not None:
            maximum = cluster
        if not self.are_reductions_enabled:
            reduction_delay = 0
        return QueueFacts(queue_path, maximum, cluster is not None, guaranteed, policy, delay, reduction_delay)


_NOTHING: Final = Resource()


def _settings(properties: Mapping[str, str]) -> _Settings:
    policy = properties.get(_POLICY, "").lower()
    delay, reduction_delay = properties.get(_DELAY, ""), properties.get(_REDUCTION_DELAY, "")
    return _Settings(_POLICIES.get(policy), _delay(delay) if delay else None, _delay(reduction_delay) or 0)
