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
from math import ceil
from typing import Final, final

from ugm.configuration import PartitionConfig
from ugm.identity import ancestors
from ugm.preemption.queue_usage_tree import PreemptionPolicy, QueueFacts
from ugm.queues.tree import NO_QUOTA, Quota
from ugm.resources import Resource

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
_PART: Final = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)(ns|us|ms|s|m|h)", re.ASCII)
_NANOSECONDS: Final = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}

_NOTHING: Final = Resource()


def is_valid_value(name: str, value: str) -> bool:
    """Return whether a value of a property is allowed; True if the property is not one of `PROPERTIES`."""
    if name == _POLICY:
        return not value or value.lower() in _POLICIES
    return name not in PROPERTIES or not value or _delay(value) is not None


def _delay(text: str) -> int | None:
    """Return a duration in whole seconds, rounded up; None if the text is not a duration."""
    if text == "0":
        return 0
    parts = _PART.findall(text)
    total = Fraction(sum(Fraction(number) * _NANOSECONDS[unit] for number, unit in parts), 10**9)
    return ceil(total) if parts and "".join(map("".join, parts)) == text else None


@final
class PreemptionSettings:
    """The settings of every queue of a configuration, and of queues that placement creates.

    Args:
        config: the configuration; None for none.
    """

    def __init__(self, config: PartitionConfig | None) -> None:
        # Without the property ``preemption.quotapreemptionenabled`` of the partition, no queue is reduced.
        is_reduced = config is not None and config.preemption.quota_preemption_enabled is True
        self._configured: Final[dict[str, QueueFacts]] = {}
        self._templates: Final[dict[str, QueueFacts]] = {}
        for path, queue in () if config is None else config.root.walk():
            self._configured[path] = _parsed(queue.properties, is_reduced=is_reduced)
            if queue.child_template is not None:
                self._templates[path] = _parsed(queue.child_template.properties, is_reduced=is_reduced)

    def _of(self, queue_path: str) -> QueueFacts:
        known = self._configured.get(queue_path)
        templates = (self._templates[path] for path in ancestors(queue_path) if path in self._templates)
        return next(templates, QueueFacts(queue_path)) if known is None else known

    def reduction_delay(self, queue_path: str) -> int:
        """Return the time that a queue may be above its maximum, in seconds; 0: never reduced."""
        return self._of(queue_path).reduction_delay

    def facts(self, queue_path: str, quota: Quota = NO_QUOTA, *, cluster: Resource | None = None) -> QueueFacts:
        """Return what a plan has to know about a queue.

        Args:
            queue_path: the queue. One that the configuration does not name has the settings of the template above.
            quota: its quota.
            cluster: the size of the cluster, for the root; None for no limit.
        """
        return self._of(queue_path)._replace(
            queue_path=queue_path,
            maximum=(quota.max_resources or _NOTHING) if cluster is None else cluster,
            is_closed=cluster is not None,
            guaranteed=quota.guaranteed or _NOTHING,
        )


def _parsed(properties: Mapping[str, str], *, is_reduced: bool) -> QueueFacts:
    delay, reduction_delay = (_delay(properties.get(name, "")) for name in (_DELAY, _REDUCTION_DELAY))
    policy = _POLICIES.get(properties.get(_POLICY, "").lower())
    return QueueFacts("", policy=policy, delay=delay, reduction_delay=reduction_delay or 0 if is_reduced else 0)
