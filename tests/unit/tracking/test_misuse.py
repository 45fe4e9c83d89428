"""Misuse of the manager: one test for each error, which changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from support.tracking_fixtures import BOB, ONE, SUE, Wrong, group, partition, user
from ugm import Manager, ReleaseError, Request, RequestError, Resource, UgmError
from ugm.testing import exposed, verify_all

#: Every call that takes a queue path, an application, a usage and a user, by name.
CHARGING: dict[str, Callable[..., Any]] = {
    "increase": Manager.increase,
    "increase_tracked_resource": Manager.increase_tracked_resource,
    "decrease_tracked_resource": lambda manager, path, app, usage, asking: manager.decrease_tracked_resource(
        path, app, usage, remove_app=False, user=asking
    ),
    "check": Manager.check,
    "adopt": Manager.adopt,
    "replace": lambda manager, path, app, usage, asking: manager.replace(path, app, usage, usage, asking),
    "increase_all": lambda manager, *request: manager.increase_all([Request("root.a", "new", ONE, SUE), request]),
}
#: Every call that takes a queue path, an application and a user.
ASKING: dict[str, Callable[..., Any]] = {
    "headroom": Manager.headroom,
    "can_run_app": Manager.can_run_app,
    "group_for": Manager.group_for,
    "effective_limits": lambda manager, path, app, asking: manager.effective_limits(asking, path, app),
}
EVERY = {**CHARGING, **{name: lambda m, p, a, _, u, ask=ask: ask(m, p, a, u) for name, ask in ASKING.items()}}

charging = pytest.mark.parametrize("call", CHARGING.values(), ids=CHARGING)
every = pytest.mark.parametrize("call", EVERY.values(), ids=EVERY)


@pytest.fixture(name="manager")
def _manager() -> Manager:
    manager = Manager(partition({"root": [user("sue", memory=9), group("dev", memory=9)]}))
    manager.increase("root.a", "app-1", Resource(memory=2), SUE)
    return manager


@contextmanager
def refused(manager: Manager, kind: type[UgmError], text: str) -> Iterator[None]:
    """Expect an error with a text, and that nothing has changed."""
    before = exposed(manager)
    with pytest.raises(kind) as caught:
        yield
    assert str(caught.value) == text
    assert exposed(manager) == before
    verify_all(manager)


@every
@pytest.mark.parametrize("path", ["", None, 7, ["root"]])
def test_missing_queue(manager: Manager, call: Callable[..., Any], path: Wrong) -> None:
    """An empty or missing queue is refused."""
    with refused(manager, RequestError, f"queue_path {path!r}: expected a non-empty string"):
        call(manager, path, "app-1", ONE, SUE)


@every
@pytest.mark.parametrize("path", ["a", "root.", "root..a", "root.a b", "Root.a\n"])
def test_malformed_queue(manager: Manager, call: Callable[..., Any], path: str) -> None:
    """A path that is not well formed under the root is refused."""
    text = f"queue_path {path!r}: expected 'root', or names below it separated by single dots"
    with refused(manager, RequestError, text):
        call(manager, path, "app-1", ONE, SUE)


@every
@pytest.mark.parametrize("asking", [None, "sue", "", ("sue", ())])
def test_missing_user(manager: Manager, call: Callable[..., Any], asking: Wrong) -> None:
    """A user is a UserGroup, for running applications and for new ones."""
    for application in ("app-1", "app-2"):
        with refused(manager, RequestError, f"user {asking!r}: expected a UserGroup"):
            call(manager, "root.a", application, ONE, asking)


@charging
@pytest.mark.parametrize("name", ["memory", "pods"])
def test_usage_is_not_negative(manager: Manager, call: Callable[..., Any], name: str) -> None:
    """A negative amount is refused, whether or not a limit names the resource."""
    usage = Resource({name: -1})
    with refused(manager, RequestError, f"usage {usage!r}: the amount of {name} is negative"):
        call(manager, "root.a", "app-1", usage, SUE)


def test_replace_of_more_than_is_held(manager: Manager) -> None:
    """A placeholder that does not exist cannot be replaced."""
    for real in (ONE, Resource(memory=100)):
        with refused(manager, ReleaseError, "application 'app-1' in 'root.a' holds 2 memory and cannot give back 3"):
            manager.replace("root.a", "app-1", Resource(memory=3), real, SUE)


def test_group_limits_is_one_of_two() -> None:
    """An unknown way to treat group limits is refused."""
    with pytest.raises(RequestError) as caught:
        Manager(group_limits="never")  # type: ignore[arg-type] # what is tested

    assert str(caught.value) == "group_limits 'never': expected 'always' or 'unless-user-limited'"


def test_refused_limits_leave_the_old_in_force(manager: Manager) -> None:
    """An invalid configuration changes nothing; the old limits stay in force."""
    limit = Resource(memory=0, vcore=0)
    config = partition({"root": [user("sue", **limit), user("bob", memory=1)]})
    reason = "a limit must allow more than 0 of at least one resource that it names"
    with refused(manager, RequestError, f"max_resources {limit!r}: {reason}"):
        manager.update_config(config)
    assert manager.headroom("root", "app-1", SUE) == Resource(memory=7)


@pytest.mark.parametrize("config", [7, "partitions.yaml", {"root": {}}])
def test_configuration_is_one_partition(manager: Manager, config: Wrong) -> None:
    """A value that is not a partition is refused, also a whole configuration; the old limits stay in force."""
    message = f"config {type(config)}: expected one partition, such as config.partition()"
    with refused(manager, RequestError, message):
        manager.update_config(config)


def test_error_within_a_gang(manager: Manager) -> None:
    """If one of several requests is misuse, none is granted."""
    gang = [Request("root.a", "app-2", ONE, SUE), Request("root.b", "app-3", ONE, BOB), Request("root", "", ONE, SUE)]
    text = "application_id '': an application id is a text of 1 to 256 characters"
    with refused(manager, RequestError, text):
        manager.increase_all(gang)


# Not strict


def test_not_strict_still_refuses_what_is_no_request() -> None:
    """Empty arguments, or arguments of the wrong type, raise an error in any case."""
    manager = Manager(strict=False)

    with pytest.raises(RequestError):
        manager.decrease_tracked_resource("", "app-1", ONE, remove_app=False, user=SUE)
