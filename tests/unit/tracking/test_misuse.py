"""Misuse of the manager: one test for each error, which changes nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from support.logs import own_records
from support.partition_fixtures import config as read
from support.tracking_fixtures import BOB, ONE, SUE, Wrong, group, partition, user
from ugm import Manager, NotTrackedError, ReleaseError, Request, RequestError, Resource, UgmError, UserGroup
from ugm.configuration import Extensions
from ugm.testing import exposed, verify_all

HERE = "application 'app-1' in 'root.a'"

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


NOTHING_HELD = "the application holds nothing in that queue"
UNKNOWN = "application 'app-9' of user 'sue' in 'root.a': the application is not tracked"
NO_PATH = "expected 'root', or names below it separated by single dots"
NO_ID = "a name is a text of 1 to 256 characters"
#: Wrong values of an argument of every call, with the reason.
WRONG: dict[str, tuple[str, list[Any]]] = {
    "queue_path": ("expected a non-empty string", ["", None, 7, ["root"]]),
    "queue_path of another form": (NO_PATH, ["a", "root.", "root..a", "root.a b", "Root.a\n"]),
    "application_id": (NO_ID, ["", 7, ["app-1"]]),
    "user": ("expected a UserGroup", [None, "sue", "", ("sue", ())]),
}
#: The same for the calls that take a usage.
WRONG_USAGE: dict[str, tuple[str, list[Any]]] = {
    "application_id": (NO_ID, [None]),
    "usage": ("expected a Resource", [None, 1, {"memory": 1}]),
    "usage of memory": ("the amount of memory is negative", [Resource(memory=-1)]),
    "usage of pods": ("the amount of pods is negative", [Resource(pods=-1)]),
}


def refuse_all(manager: Manager, call: Callable[..., Any], what: str, wrong: tuple[str, list[Any]]) -> None:
    """Expect an error for each wrong value, for a running application and for a new one."""
    argument, (reason, values) = what.partition(" ")[0], wrong
    for value in values:
        for application in ("app-1", "app-2"):
            given = {"queue_path": "root.a", "application_id": application, "usage": ONE, "user": SUE, argument: value}
            shown = "placeholder" if call is CHARGING["replace"] and what == "usage" else argument
            with refused(manager, RequestError, f"{shown} {value!r}: {reason}"):
                call(manager, *given.values())


@every
@pytest.mark.parametrize("what", WRONG)
def test_wrong_argument(manager: Manager, call: Callable[..., Any], what: str) -> None:
    """A wrong queue, application or user is refused, and nothing changes."""
    refuse_all(manager, call, what, WRONG[what])


@charging
@pytest.mark.parametrize("what", WRONG_USAGE)
def test_wrong_usage(manager: Manager, call: Callable[..., Any], what: str) -> None:
    """A missing application and a wrong usage are refused, and nothing changes."""
    refuse_all(manager, call, what, WRONG_USAGE[what])


@charging
def test_second_user(manager: Manager, call: Callable[..., Any]) -> None:
    """An application belongs to one user, in all queues."""
    for path in ("root.a", "root.b"):
        with refused(manager, RequestError, "user 'bob': application 'app-1' belongs to user 'sue'"):
            call(manager, path, "app-1", ONE, BOB)


def test_real_is_a_vector(manager: Manager) -> None:
    """The replacement of a placeholder is a resource vector."""
    with refused(manager, RequestError, "real None: expected a Resource"):
        manager.replace("root.a", "app-1", ONE, None, SUE)  # type: ignore[arg-type] # what is tested


@pytest.mark.parametrize(
    ("path", "application", "usage", "user", "text"),
    [
        ("root.a", "app-9", ONE, BOB, "application 'app-9' of user 'bob' in 'root.a': the user is not tracked"),
        ("root.a", "app-9", ONE, SUE, UNKNOWN),
        *(
            (path, "app-1", ONE, SUE, f"application 'app-1' of user 'sue' in {path!r}: {NOTHING_HELD}")
            for path in ("root.b", "root", "root.a.x")
        ),
        ("root.a", "app-1", Resource(memory=3), SUE, f"{HERE} holds 2 memory and cannot give back 3"),
        ("root.a", "app-1", Resource(vcore=1), SUE, f"{HERE} holds 0 vcore and cannot give back 1"),
        ("root.a", "app-1", Resource(memory=1, pods=1), SUE, f"{HERE} holds 0 pods and cannot give back 1"),
    ],
)
def test_decrease_of_what_is_not_held(
    manager: Manager, path: str, application: str, usage: Resource, user: UserGroup, text: str
) -> None:
    """A release cannot exceed the amount that the application of the user holds in the queue, not above or below."""
    kind = ReleaseError if "holds 2" in text or "holds 0" in text else NotTrackedError
    with refused(manager, kind, text):
        manager.decrease_tracked_resource(path, application, usage, remove_app=False, user=user)


def test_refused_limits_leave_the_old_in_force(manager: Manager) -> None:
    """An invalid configuration changes nothing; the old limits stay in force."""
    limit, listing = Resource(memory=0, vcore=0), Extensions(resources=("pods",))
    schedule = "ugm: {schedule: [{hours: '01:00-02:00', maxresources: {memory: 2}}]}"
    for config, reason in (
        (
            partition({"root": [user("sue", **limit), user("bob", memory=1)]}),
            f"max_resources {limit!r}: a limit must allow more than 0 of at least one resource that it names",
        ),
        (
            replace(partition({"root": [user("sue", gpu=1)]}), ugm=listing),
            "config 'queues.0.limits.0.maxresources.gpu': the resource 'gpu' is not listed (listed: pods)",
        ),
        (
            read(limits=f"{{users: [sue], maxresources: {{memory: 1}}, {schedule}}}"),
            "config 'root': a Manager has no clock; scheduled limits need a Partition",
        ),
    ):
        with refused(manager, RequestError, reason):
            manager.update_config(config)
    assert manager.headroom("root", "app-1", SUE) == Resource(memory=7)


def test_user_of_a_question_about_usage(manager: Manager) -> None:
    """The query for the usage of a user takes a UserGroup."""
    with refused(manager, RequestError, "user 'sue': expected a UserGroup"):
        manager.get_user_resources("sue")  # type: ignore[arg-type] # what is tested


@pytest.mark.parametrize("gang", [7, [7], [("root", "app-1")]])
def test_gang_is_made_of_requests(manager: Manager, gang: Wrong) -> None:
    """A value that is not a request cannot be part of a gang."""
    with refused(manager, RequestError, f"requests {gang!r}: expected Requests, or tuples of their four parts"):
        manager.increase_all(gang)


# Not strict


@pytest.mark.parametrize(
    ("request_", "remove_app", "text"),
    [
        (
            ("root.a", "app-9", ONE, BOB),
            False,
            "application 'app-9' of user 'bob' in 'root.a': the user is not tracked",
        ),
        (("root.a", "app-1", Resource(memory=3), SUE), False, f"{HERE} holds 2 memory and cannot give back 3"),
        (("root.a", "app-1", ONE, SUE), True, f"{HERE} holds 2 memory and cannot end with 1 left"),
    ],
)
def test_not_strict_logs(
    caplog: pytest.LogCaptureFixture,
    request_: tuple[str, str, Resource, UserGroup],
    remove_app: bool,  # noqa: FBT001 - a parameter
    text: str,
) -> None:
    """A manager that is not strict logs an error instead of raising it, and changes nothing."""
    manager = Manager(strict=False)
    manager.increase("root.a", "app-1", Resource(memory=2), SUE)
    before = exposed(manager)
    manager.decrease_tracked_resource(*request_[:3], remove_app=remove_app, user=request_[3])

    logged = [(record.levelno, record.getMessage()) for record in own_records(caplog)]
    assert logged == [(logging.ERROR, f"nothing refunded: {text}")]
    assert exposed(manager) == before


def test_not_strict_still_refuses_what_is_no_request() -> None:
    """Empty arguments, or arguments of the wrong type, raise an error in any case."""
    manager = Manager(strict=False)

    with pytest.raises(RequestError):
        manager.decrease_tracked_resource("", "app-1", ONE, remove_app=False, user=SUE)
