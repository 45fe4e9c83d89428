"""Decayed usage from a journal: the past of the owners, with the exact time of every change, and shares of users."""

from __future__ import annotations

from time import time

from ugm.fairness import FairShares
from ugm.identity import UserGroup
from ugm.journal.declared_past import declared_models
from ugm.journal.locations import LogLocation, log_at
from ugm.journal.usage_intervals import recorded_intervals
from ugm.partition.compiled_config import CompiledConfig
from ugm.partition.usage_feed import UsageFeed

__all__ = ["load_usage", "restored_shares"]


def load_usage(path: LogLocation, feed: UsageFeed) -> None:
    """Count everything that a journal knows, which another process may be writing.

    The milliseconds of a journal are rounded down to seconds. Afterwards, the feed can be a subscriber of the partition
    that is opened from the journal, and continues without a gap. The function takes time proportional to the journal.

    Args:
        path: the location of the journal; see `ugm.journal.open_partition`.
        feed: a new feed. For usage before the last compaction, its owners see only the group of a user that was
            charged, because the history of a journal has no others.

    Raises:
        JournalError: the journal cannot be read.

    >>> from ugm.fairness import BinnedUsage
    >>> feed = UsageFeed(BinnedUsage(bin=86400, decay=1, bins=30))
    >>> load_usage("quota.journal", feed)  # doctest: +SKIP
    """
    with log_at(path).open_contents() as contents:
        for interval in recorded_intervals(contents):
            feed.record(
                UserGroup.charged(interval.user, interval.group),
                interval.queue_path,
                interval.usage,
                interval.begin // 1000,
                interval.end // 1000,
            )
        start = contents.start
        for application in start.checkpoint.applications:
            submission = application.submission
            feed.add_application(submission.application_id, submission.user, application.queue_path)
        for allocation in contents.allocations():
            feed.start(allocation, start.at // 1000)
        for entry in contents.changes():
            feed.apply(entry.events, entry.at // 1000)


def restored_shares(path: LogLocation, compiled: CompiledConfig) -> FairShares | None:
    """Return the shares of users that the configuration of a journal declares, with their usage.

    For a process that only reads the journal. The time is that of the system clock.

    Args:
        path: the location of the journal.
        compiled: the configuration in force at its end.

    Raises:
        JournalError: the journal cannot be read.
    """
    models = [one.model for one in declared_models(compiled.models, log_at(path).open_contents())]
    shares = next((model for model in models if isinstance(model, FairShares)), None)
    if shares is not None:
        shares.at(max(shares.now, int(time())))
    return shares
