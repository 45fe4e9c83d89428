"""Where Apache YuniKorn does something that looks wrong or depends on how it is built: what is done here instead.

Each test replays the input of one recorded entry; the recorded answers are those of the peer and not the aim.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from support.manager_replay import Answer, Replay
from support.places import TESTS
from support.vectors import vectors
from ugm import ConfigError, NotTrackedError, ReleaseError

#: The entries that these tests are about; always the project's own, whatever folder conformance is checked with.
ENTRIES: Final = {entry["name"]: entry for entry in vectors(str(TESTS / "vectors/yunikorn/differences/enforcement"))}


def answers(name: str, steps: int | None = None) -> list[Answer]:
    """Return what is answered to the first *steps* steps of an entry."""
    replay = Replay(ENTRIES[name])
    return [replay.answer(step) for step in ENTRIES[name]["steps"][:steps]]


def queue(**shown: object) -> dict[str, Any]:
    """Return a queue as a state shows it, without limits unless they are given."""
    return {"usage": {}, "apps": [], "max_resources": None, "max_apps": 0, **shown}


def test_every_entry_has_a_test() -> None:
    """No recorded difference is passed over."""
    for name in ENTRIES:
        assert f"test_{name.replace('-', '_')}" in globals(), name


def test_wildcard_removal_ignored_when_named_users_stay() -> None:
    """A configuration applies as a whole: a wildcard that is gone limits nobody, whatever named limits stay."""
    found = answers("wildcard-removal-ignored-when-named-users-stay")

    assert found[2]["users"]["bob"]["root.a"] == queue(usage={"memory": 50}, apps=["x1"])
    assert [found[3]["allowed"], found[4]["allowed"], found[5]["allowed"]] == [True, True, True]


def test_removing_a_named_limit_drops_the_named_limit_below() -> None:
    """A limit in the configuration holds, whatever happened to the limits of the queues above."""
    found = answers("removing-a-named-limit-drops-the-named-limit-below")

    assert found[2]["headroom"] == {"memory": 100}
    assert not found[3]["allowed"]


def test_dropped_named_limit_replaced_by_wildcard() -> None:
    """A user with a named limit is held to it and not to the wildcard of the same queue."""
    found = answers("dropped-named-limit-replaced-by-wildcard")

    assert found[1]["headroom"] == {"memory": 100}


def test_removing_a_root_limit_drops_the_limits_below() -> None:
    """The limit of a queue outlives that of the root."""
    found = answers("removing-a-root-limit-drops-the-limits-below")

    assert not found[1]["allowed"]
    assert found[2]["users"] == {}


def test_group_limit_removal_clears_usage_of_other_queues() -> None:
    """Removing a limit of a group keeps the usage of its running applications, in that queue and in all others."""
    found = answers("group-limit-removal-clears-usage-of-other-queues", steps=8)
    before, after = found[2]["groups"]["g"], found[4]["groups"]["g"]

    assert after == before | {"root.a": queue(usage={"memory": 30}, apps=["xa"])}
    assert found[5]["headroom"] == {"memory": 10}
    assert not found[6]["allowed"]


def test_group_limit_removal_gives_back_exactly() -> None:
    """What the group gives back after a removal is what it holds; more is an error, and usage is never negative."""
    entry = ENTRIES["group-limit-removal-clears-usage-of-other-queues"]
    replay = Replay(entry)
    for step in entry["steps"][:9]:
        replay.answer(step)

    with pytest.raises(ReleaseError, match="holds 0 memory and cannot give back 90"):
        replay.answer(entry["steps"][9])


def test_relinked_app_makes_group_usage_negative() -> None:
    """An application that has run all along is charged to its group for all that it holds."""
    found = answers("relinked-app-makes-group-usage-negative")

    assert found[3]["groups"]["g"]["root"]["usage"] == {"memory": 31}
    assert found[5]["groups"]["g"]["root"]["usage"] == {"memory": 1}
    assert found[6]["headroom"] == {"memory": 99}
    assert not found[7]["allowed"]


def test_crash_on_second_group_limit_removal_zero_usage() -> None:
    """A group whose last application has ended is gone, so later configurations find nothing to stumble over."""
    found = answers("crash-on-second-group-limit-removal-zero-usage")

    assert found[2]["user_groups"] == {"ana": {"x": "g"}}
    assert found[4] == {"users": {}, "groups": {}, "user_groups": {}}
    assert found[6] == {"ok": True}


def test_crash_on_second_group_limit_removal_idle_app() -> None:
    """The same when the application gave everything back before it ended."""
    found = answers("crash-on-second-group-limit-removal-idle-app")

    assert found[3]["groups"]["g"]["root.a"] == queue(apps=["x"])
    assert found[5] == {"users": {}, "groups": {}, "user_groups": {}}
    assert found[7] == {"ok": True}


def test_limits_of_a_mixed_case_queue_never_apply() -> None:
    """Queue names are the same in any case, in limits, in requests and in questions."""
    found = answers("limits-of-a-mixed-case-queue-never-apply")

    assert found[0] == {"allowed": False, "group": "g"}
    assert found[1]["users"] == {}
    assert found[2]["headroom"] == {"memory": 10}


def test_app_limit_above_int64_denies_all() -> None:
    """A count that is too large is refused when the configuration is read, not turned into one that denies all."""
    with pytest.raises(ConfigError, match="count-too-large"):
        answers("app-limit-above-int64-denies-all")


def test_usage_below_zero_is_accepted() -> None:
    """Nobody gives back more than is held, nor for an application or in a queue where nothing is held."""
    entry = ENTRIES["usage-below-zero-is-accepted"]
    replay = Replay(entry)
    replay.answer(entry["steps"][0])

    with pytest.raises(ReleaseError, match="holds 5 memory and cannot give back 9"):
        replay.answer(entry["steps"][1])
    for step in (4, 6):
        with pytest.raises(NotTrackedError):
            replay.answer(entry["steps"][step])
    assert replay.answer(entry["steps"][7])["users"]["ana"]["root.a"]["usage"] == {"memory": 5}


def test_decrease_below_an_unknown_queue_changes_the_parents_only() -> None:
    """A decrease changes the queue and all above it, or nothing."""
    entry = ENTRIES["decrease-below-an-unknown-queue-changes-the-parents-only"]
    replay = Replay(entry)
    replay.answer(entry["steps"][0])

    with pytest.raises(NotTrackedError):
        replay.answer(entry["steps"][1])
    assert replay.answer(entry["steps"][2])["users"]["ana"] == {
        "root": queue(usage={"memory": 5}, apps=["x"], max_resources={"memory": 10}),
        "root.a": queue(usage={"memory": 5}, apps=["x"]),
    }


def test_saturated_sum_is_not_given_back() -> None:
    """Sums are exact integers, however large; what is given back is what is missing afterwards."""
    found = answers("saturated-sum-is-not-given-back")

    assert found[2]["users"]["ana"]["root"]["usage"] == {"memory": 2 * (2**63 - 1)}
    assert found[4]["users"]["ana"]["root"]["usage"] == {"memory": 2**63 - 1}


def test_a_check_alone_fixes_the_group() -> None:
    """Asking chooses no group: the first usage does, under the configuration of that moment."""
    found = answers("a-check-alone-fixes-the-group")

    assert [found[2]["group"], found[3]["group"]] == ["h", "h"]
    assert found[4]["user_groups"] == {"ana": {"x": "h", "y": "h"}}


def test_a_check_alone_fixes_no_group() -> None:
    """Asking does not choose to have no group either; a first usage without a group does, and stays without."""
    found = answers("a-check-alone-fixes-no-group")

    assert found[3] == {"allowed": False, "group": "g"}
    assert found[4] == {"allowed": True, "group": None}
    assert found[6]["user_groups"] == {"ana": {"r": None}}


def test_same_app_in_two_queues_keeps_first_group() -> None:
    """An application is charged to one group in all its queues; here the two agree."""
    entry = ENTRIES["same-app-in-two-queues-keeps-first-group"]

    for answer, step in zip(answers(entry["name"]), entry["steps"], strict=True):
        assert answer == {field: step[field] for field in answer}


def test_same_app_in_two_queues_removed_once() -> None:
    """An application that has ended in one of two queues still runs at the root, and counts there."""
    found = answers("same-app-in-two-queues-removed-once")

    assert found[3]["users"]["ana"]["root"] == queue(usage={"memory": 1}, apps=["x"], max_apps=1)
    assert found[3]["user_groups"] == {"ana": {"x": None}}


def test_second_configuration_replaces_all_limits() -> None:
    """A configuration says everything: limits that it does not repeat are gone; here the two agree."""
    entry = ENTRIES["second-configuration-replaces-all-limits"]

    for answer, step in zip(answers(entry["name"]), entry["steps"], strict=True):
        assert answer == {field: step[field] for field in answer}


def test_corner_no_groups_no_group_tracking() -> None:
    """Asking about an application with no groups does not keep it from being charged to a group later."""
    corners = vectors(str(TESTS / "vectors/yunikorn/enforcement_corners"))
    entry = next(corner for corner in corners if corner["name"] == "corner-no-groups-no-group-tracking")
    replay = Replay(entry)
    found = [replay.answer(step) for step in entry["steps"]]

    assert found[2] == {"allowed": False, "group": "*"}
    assert found[3]["user_groups"] == {"eve": {"x": None}}
