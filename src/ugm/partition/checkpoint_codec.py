"""The plain data of checkpoints: the rows that a compacted journal begins with.

Each row has a tag. There is one row for the partition, one for preemption if it is in use, one for each queue that the
configuration does not name, one for each application, one for each declared model with a past, and one for every 100
allocations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Final

from ugm._json_values import Json
from ugm.partition.allocation import Allocation
from ugm.partition.application import GangStyle
from ugm.partition.checkpoint import ApplicationRecord, Checkpoint, ModelRecord, QueueRecord
from ugm.partition.event_codec import (
    decode_allocation,
    decode_amounts,
    decode_optional_amounts,
    decode_user,
    encode_allocation,
    encode_optional_amounts,
    from_json,
    to_json,
    user_to_dict,
)
from ugm.queues import Acl, QueueSpec, Quota, Submission

__all__ = ["application_to_dict", "decode_checkpoint", "encode_checkpoint"]

#: The number of allocations in one row.
_ALLOCATIONS_PER_ROW: Final = 100
#: The beginning of a row of allocations.
_ALLOCATIONS: Final = b'["allocations",'


def encode_checkpoint(checkpoint: Checkpoint) -> Iterator[bytes]:
    """Yield the rows of a checkpoint."""
    nodes = {name: capacity.amounts for name, capacity in checkpoint.nodes.items()}
    # A partition without models of the program and without reservations has the row of older versions.
    more: list[Json] = [list(checkpoint.added_models)] if checkpoint.added_models or checkpoint.reservations else []
    if checkpoint.reservations:
        more.append(dict(checkpoint.reservations))
    yield to_json(["partition", checkpoint.closed, nodes, encode_optional_amounts(checkpoint.total), *more])
    if checkpoint.placed or checkpoint.reduction_timers:
        yield to_json(["preemption", checkpoint.placed, dict(checkpoint.reduction_timers)])
    for spec, was_configured, quota in checkpoint.queues:
        yield to_json(["queue", _encode_spec(spec), was_configured, encode_optional_amounts(quota)])
    for (application_id, user, queue, tags), *rest in checkpoint.applications:
        yield to_json(["application", application_id, user.name, user.groups, queue, dict(tags), *rest])
    for record in checkpoint.models:
        yield to_json(["model", *record])
    allocations = iter(checkpoint.allocations)
    while row := list(map(encode_allocation, islice(allocations, _ALLOCATIONS_PER_ROW))):
        yield to_json(["allocations", *row])


def decode_checkpoint(rows: Iterable[bytes]) -> Checkpoint:
    """Return the checkpoint of the rows that `encode_checkpoint` has yielded.

    Raises:
        ValueError: the rows are not such rows; or another error of decoding.
    """
    decoded: dict[str, list[Json]] = {"partition": [], "preemption": [], "queue": [], "application": [], "model": []}
    allocations: list[bytes] = []
    for row in rows:
        if row.startswith(_ALLOCATIONS):
            allocations.append(row)
        else:
            tag, *values = from_json(row)
            decoded[tag].append(values)
    [(closed, nodes, total, *more)] = decoded["partition"]
    placed, timers = decoded["preemption"][0] if decoded["preemption"] else ((), {})
    return Checkpoint(
        closed,
        {name: decode_amounts(capacity) for name, capacity in nodes.items()},
        decode_optional_amounts(total),
        tuple(
            QueueRecord(_decode_spec(spec), was_configured, decode_optional_amounts(quota))
            for spec, was_configured, quota in decoded["queue"]
        ),
        tuple(map(_decode_application, decoded["application"])),
        _StoredAllocations(allocations),
        tuple(more[0]) if more else (),
        more[1] if len(more) > 1 else {},
        tuple(placed),
        timers,
        tuple(ModelRecord(*values) for values in decoded["model"]),
    )


class _StoredAllocations:
    """The allocations of some rows, decoded during iteration: there may be millions."""

    __slots__ = ("_rows",)

    def __init__(self, rows: list[bytes]) -> None:
        self._rows: Final = rows

    def __iter__(self) -> Iterator[Allocation]:
        for row in self._rows:
            yield from map(decode_allocation, islice(from_json(row), 1, None))


def _decode_application(values: Sequence[Json]) -> ApplicationRecord:
    application_id, user, groups, queue, tags, queue_path, style, *rest = values
    submission = Submission(application_id, decode_user(user, groups), queue, MappingProxyType(tags))
    return ApplicationRecord(submission, queue_path, GangStyle(style), *rest)


def application_to_dict(application: ApplicationRecord) -> dict[str, Json]:
    """Return an application for JSON, with the names of its attributes."""
    submission = application.submission
    user, tags = user_to_dict(submission.user), dict(submission.tags)
    return {**application._asdict(), "submission": {**submission._asdict(), "user": user, "tags": tags}}


def _encode_spec(spec: QueueSpec) -> list[Json]:
    template = None if spec.template is None else _encode_quota(spec.template)
    acls = [None if acl is None else str(acl) for acl in (spec.submit_acl, spec.admin_acl)]
    return [spec.queue_path, spec.is_parent, _encode_quota(spec.quota), template, *acls]


def _decode_spec(values: Sequence[Json]) -> QueueSpec:
    path, is_parent, quota, template, submit, admin = values
    acls = [None if acl is None else Acl.parse(acl) for acl in (submit, admin)]
    return QueueSpec(path, is_parent, _decode_quota(quota), template and _decode_quota(template), *acls)


def _encode_quota(quota: Quota) -> list[Json]:
    return [
        encode_optional_amounts(quota.max_resources),
        quota.max_applications,
        encode_optional_amounts(quota.guaranteed),
    ]


def _decode_quota(values: Sequence[Json]) -> Quota:
    max_resources, max_applications, guaranteed = values
    return Quota(decode_optional_amounts(max_resources), max_applications, decode_optional_amounts(guaranteed))
