"""Laws of tracking and enforcing: true of every configuration and every stream of requests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ugm import Manager, Request, RequestError, Resource, UserGroup
from ugm.configuration import LimitConfig, PartitionConfig, QueueConfig
from ugm.testing import exposed, partitions, queue_paths, request_streams, requests, resources, verify_all

#: A configuration, earlier requests, and one more request.
Scene = tuple[PartitionConfig, list[Request], Request]
scenes = partitions().flatmap(lambda config: st.tuples(st.just(config), request_streams(config), requests(config)))
streams = partitions().flatmap(lambda config: st.tuples(st.just(config), request_streams(config)))


def after(config: PartitionConfig, stream: list[Request], **options: Any) -> tuple[Manager, list[Request]]:  # noqa: ANN401 - the manager's
    """Return a manager after a stream of increases, and those that were granted."""
    manager = Manager(config, **options)
    return manager, [request for request in stream if manager.increase(*request)]


def started(granted: list[Request], request: Request) -> bool:
    """Return whether the application of a request runs in its queue already."""
    here = (request.queue_path.lower(), request.application_id)
    return here in {(before.queue_path.lower(), before.application_id) for before in granted}


def end_everything(manager: Manager, granted: list[Request]) -> None:
    """Release the granted amounts by application and queue."""
    held: dict[tuple[str, str, str], Resource] = {}
    for path, application, usage, user in granted:
        key = (path.lower(), application, user.name)
        held[key] = held.get(key, Resource()) + usage
    for (path, application, name), usage in held.items():
        manager.decrease_tracked_resource(path, application, usage, remove_app=True, user=UserGroup(name))


@given(scenes)
def test_decrease_undoes_increase(scene: Scene) -> None:
    """Releasing the granted amounts restores the visible state."""
    config, stream, request = scene
    manager, granted = after(config, stream)
    before = exposed(manager)
    if manager.increase(*request):
        ends = not started(granted, request)
        manager.decrease_tracked_resource(*request[:3], remove_app=ends, user=request.user)

    assert exposed(manager) == before
    verify_all(manager)


@given(streams, st.randoms(use_true_random=False))
def test_order_of_applications_does_not_matter(scene: tuple[PartitionConfig, list[Request]], random: Any) -> None:  # noqa: ANN401 - `random.Random`, as hypothesis makes it
    """Usage of different applications adds up to the same in any order."""
    config, stream = scene
    first = {request.application_id: request for request in stream}
    shuffled = list(first.values())
    random.shuffle(shuffled)
    one, other = Manager(config), Manager(config)
    for request in first.values():
        one.adopt(*request)
    for request in shuffled:
        other.adopt(*request)

    assert exposed(one) == exposed(other)
    assert one.exceeded_limits() == other.exceeded_limits()


@given(streams)
def test_order_of_users_does_not_matter(scene: tuple[PartitionConfig, list[Request]]) -> None:
    """Users without groups do not compete: requests of others do not affect their grants."""
    config, stream = scene
    alone = [request._replace(user=UserGroup(request.user.name)) for request in stream]
    by_user = sorted(alone, key=lambda request: request.user.name)
    one, granted = after(config, alone)
    other, granted_by_user = after(config, by_user)

    assert sorted(granted, key=lambda request: request.user.name) == granted_by_user
    assert exposed(one) == exposed(other)


@given(scenes)
def test_headroom_fits_and_no_more(scene: Scene) -> None:
    """A running application may use all of its headroom, and no more of any resource."""
    config, stream, request = scene
    manager, granted = after(config, stream)
    path, application, _, user = request
    room = manager.headroom(path, application, user)
    if room is None or not started(granted, request):
        return

    assert manager.check(path, application, Resource({name: max(free, 0) for name, free in room.items()}), user)
    assert not any(
        manager.check(path, application, Resource({name: max(free, 0) + 1}), user) for name, free in room.items()
    )


@given(scenes, st.sampled_from(["queue_path", "application_id", "usage", "user"]))
def test_error_changes_nothing(scene: Scene, argument: str) -> None:
    """A call that raises an error does not change the visible state."""
    config, stream, request = scene
    manager, _ = after(config, stream)
    before = exposed(manager)
    wrong: Any = [None if name == argument else part for name, part in request._asdict().items()]
    for call in (manager.increase, manager.check, manager.adopt):
        with pytest.raises(RequestError):
            call(*wrong)
    with pytest.raises(RequestError):
        manager.decrease_tracked_resource(wrong[0], wrong[1], wrong[2], remove_app=False, user=wrong[3])
    with pytest.raises(RequestError):
        manager.increase_all([request, wrong])

    assert exposed(manager) == before


@st.composite
def tightened(draw: st.DrawFn, queue: QueueConfig) -> QueueConfig:
    """Draw the same queue with equal or lower limits for the same names."""
    return replace(
        queue,
        limits=tuple(draw(lower(limit)) for limit in queue.limits),
        queues=tuple(draw(tightened(child)) for child in queue.queues),
    )


@st.composite
def lower(draw: st.DrawFn, limit: LimitConfig) -> LimitConfig:
    """Draw an equal or lower limit on the same resources and more."""
    given = limit.max_resources or Resource()
    amounts = {**draw(resources(smallest=1)), **{name: draw(st.integers(0, amount)) for name, amount in given.items()}}
    if amounts and not any(amounts.values()):
        amounts[max(given, key=given.__getitem__)] = 1  # all zeros would be refused
    most = draw(st.integers(1, limit.max_applications or 3))
    return replace(limit, max_resources=Resource(amounts) if amounts else None, max_applications=most)


@given(scenes.flatmap(lambda scene: st.tuples(st.just(scene), tightened(scene[0].root))))
def test_tightening_never_admits_more(pair: tuple[Scene, QueueConfig]) -> None:
    """A request that is granted under lower limits is granted under higher ones."""
    (config, stream, request), root = pair
    loose, tight = Manager(config), Manager(PartitionConfig(queues=(root,)))
    for before in stream:
        loose.adopt(*before)
        tight.adopt(*before)

    assert loose.check(*request) or not tight.check(*request)


@given(scenes, st.lists(st.tuples(st.integers(0, 20), partitions()), max_size=4))
def test_changes_of_configuration_lose_nothing(scene: Scene, changes: list[tuple[int, PartitionConfig]]) -> None:
    """If limits change between requests, the usage is the sum of the grants, and all of it can be released."""
    config, stream, _ = scene
    manager, granted, coming = Manager(config), [], sorted(changes, key=lambda change: change[0])
    for number, request in enumerate(stream):
        while coming and coming[0][0] <= number:
            manager.update_config(coming.pop(0)[1])
            verify_all(manager)
        if manager.increase(*request):
            granted.append(request)

    for name in {request.user.name for request in granted}:
        used = sum((request.usage for request in granted if request.user.name == name), Resource())
        assert manager.get_user_resources(UserGroup(name)) == used.without_zeros()
    end_everything(manager, granted)
    assert exposed(manager) == {"users": {}, "groups": {}}


@given(scenes.flatmap(lambda scene: st.tuples(st.just(scene), request_streams(scene[0], longest=5))))
def test_increase_all_is_all_or_nothing_of_the_single_ones(pair: tuple[Scene, list[Request]]) -> None:
    """A gang is granted exactly if its requests are granted one after the other, in either mode."""
    (config, stream, _), gang = pair
    for mode in ("always", "unless-user-limited"):
        together, _ = after(config, stream, group_limits=mode)
        singly, _ = after(config, stream, group_limits=mode)
        before = exposed(together)
        granted = all(singly.increase(*request) for request in gang)

        assert together.increase_all(gang).allowed is granted
        assert exposed(together) == (exposed(singly) if granted else before)
        verify_all(together)


@given(scenes, queue_paths())
def test_unless_user_limited_grants_no_less(scene: Scene, path: str) -> None:
    """The exemption from group limits never denies a request that they would allow."""
    config, stream, request = scene
    requested = request._replace(queue_path=path)
    strict, lenient = Manager(config), Manager(config, group_limits="unless-user-limited")
    for before in stream:
        strict.adopt(*before)
        lenient.adopt(*before)

    assert lenient.check(*requested) or not strict.check(*requested)
    assert exposed(lenient) == exposed(strict)
