"""Every recorded scenario of elastic quotas in Koordinator, every field of every step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

from support.elastic_reference import IDLE_SCALING, NO_TOTAL, STALE_NAMES, Naive
from support.elastic_replay import (
    TreeReplay,
    admitted,
    amounts,
    built_in_groups,
    judged,
    nonzero,
    quota_of,
    read_group,
    read_pod,
    take,
)
from support.vectors import cases, vectors
from ugm import RequestError, Resource
from ugm.elastic import ROOT_GROUP, ElasticQuota, ElasticTree

#: Scenarios of the class `regular` that show a defect of Koordinator: the naive model with the defect does what is
#: recorded, and without it what we do.
DEFECTS: Final = {
    **dict.fromkeys(
        ("corner-idle_parent_weight_zero", "v-minupd-0185", "v-parentpods-0063", "v-static_lent-0025", "v-sys-0188"),
        IDLE_SCALING,
    ),
    **dict.fromkeys(("v-total-0050", "v-weird-0081"), IDLE_SCALING),
    "corner-dim_missing_in_total": NO_TOTAL,
    **dict.fromkeys(("v-keys-0023", "v-keys-0035", "v-keys-0047", "v-keys-0239"), STALE_NAMES),
    **dict.fromkeys(("v-keys-0275", "v-keys-0287"), STALE_NAMES),
}

#: In this one Koordinator also leaves idle what a group without weight misses of its minimum.
BOTH_DEFECTS: Final = {"v-keys-0215": (STALE_NAMES, IDLE_SCALING)}

#: Scenarios in which too much was taken off the root's request when a group that requested more than its maximum left.
ROOT_REQUEST: Final = frozenset(("v-move-0211", "v-move-0223", "v-dirtydel-0274"))

#: Recordings of revoking in which the runtime differs for the first reason above.
REVOKE_IDLE_SCALING: Final = frozenset(("v-rev-0000", "v-rev-0028"))


#: Koordinator takes what is given back too much for everything that there is; here it is an error.
CLAMPED: Final = "corner-request_clamped_at_zero"

#: Denied in the recording, at some step, for a resource of which the pod asks nothing.
UNASKED: Final = frozenset(
    (
        "corner-all_keys_of_used_checked", "v-adm-0011", "v-adm-0012", "v-adm-0018", "v-adm-0021", "v-adm-0024",
        "v-adm-0033",
        "v-adm-0040", "v-adm-0044", "v-adm-0047", "v-adm-0053", "v-adm-0058", "v-adm-0067", "v-adm-0072", "v-adm-0076",
        "v-adm-0083", "v-adm-0095", "v-adm-0098", "v-adm-0102", "v-adm-0105", "v-adm-0106", "v-adm-0108", "v-adm-0111",
        "v-adm-0117", "v-adm-0119", "v-adm-0122", "v-adm-0124", "v-adm-0127", "v-adm-0129", "v-adm-0132", "v-adm-0139",
        "v-adm-0148",
    )
)  # fmt: skip

#: Admitted in the recording, at some step, to the default group beyond its maximum.
BEYOND_DEFAULT: Final = frozenset(("v-adm-0011", "v-adm-0012", "v-adm-0128"))


def scenarios(name: str, *classes: str) -> list[Any]:
    """Return the scenarios of one file, each with its name as its id; of the given classes if there are any."""
    found = [each for each in vectors(f"elastic/{name}") if not classes or each.get("class") in classes]
    return cases(found)


@pytest.mark.parametrize("scenario", scenarios("runtime", "regular"))
def test_runtime(scenario: Mapping[str, Any]) -> None:
    """Requests, scaled minimums, usage and runtimes of all groups agree with Koordinator."""
    replay = TreeReplay(scenario)
    differing = []
    for step in _steps(scenario):
        if step["op"] == "runtime":
            differing += replay.differing(step)
        else:
            replay.do(step)

    if scenario["name"] in ROOT_REQUEST:
        assert {(field, name) for field, name, _, _ in differing} == {("request", ROOT_GROUP)}
    else:
        assert bool(differing) is (scenario["name"] in DEFECTS | BOTH_DEFECTS), differing


def _steps(scenario: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for step in scenario["steps"]:
        yield (
            {**step, "delta": {"cpu": -30}}
            if scenario["name"] == CLAMPED and step.get("delta") == {"cpu": -50}
            else step
        )


@pytest.mark.parametrize("scenario", [case for case in scenarios("runtime") if case.id == CLAMPED])
def test_giving_back_too_much(scenario: Mapping[str, Any]) -> None:
    """A change that Koordinator truncates at 0 is an error; the rest of the scenario is the same."""
    replay = TreeReplay(scenario)
    replay.do(scenario["steps"][0])
    with pytest.raises(RequestError):
        replay.do(scenario["steps"][1])

    assert replay.tree.request("a") == Resource(cpu=30)


def naive(scenario: Mapping[str, Any], *defects: str) -> Naive:
    """Return the naive model at the start of a scenario."""
    groups = [*built_in_groups(scenario), *map(read_group, scenario["quotas"])]
    return Naive(groups, Resource(scenario["total"]), scenario["scale_min"], defects)


def follow(model: Naive, step: dict[str, Any]) -> None:
    """Take a step that has no result."""
    if step["op"] == "total":
        model.set_total(Resource(step["value"]))
    elif step["op"] == "update_quota":
        model.groups[step["quota"]["name"]] = read_group(step["quota"])
    elif step["op"] == "delete_quota":
        model.drop(step["name"])
    else:
        model.change(model.requested if step["op"] == "request" else model.used, step["quota"], step["delta"])


@pytest.mark.parametrize("scenario", [case for case in scenarios("runtime") if case.id in DEFECTS | BOTH_DEFECTS])
def test_only_the_defect_differs(scenario: Mapping[str, Any]) -> None:
    """The naive model with the named defects agrees with the recording."""
    name = scenario["name"]
    model = naive(scenario, *BOTH_DEFECTS.get(name, [DEFECTS.get(name, "")]))
    for step in scenario["steps"]:
        if step["op"] != "runtime":
            follow(model, step)
            continue
        for name, recorded in step["runtime"].items():
            shared = [each for each in model.groups[name].max if model.names(model.groups[name].parent, each)]
            assert nonzero({each: model.runtime(name, each) or 0 for each in shared}) == nonzero(recorded), name


@pytest.mark.parametrize("scenario", scenarios("runtime"))
def test_naive_model_agrees(scenario: Mapping[str, Any]) -> None:
    """In every class of scenarios, the state follows from the present configuration and requests."""
    replay, model = TreeReplay(scenario), naive(scenario)
    for step in _steps(scenario):
        if step["op"] != "runtime":
            replay.do(step)
            follow(model, step)
            continue
        for name in step["runtime"]:
            shown = replay.tree.runtime(name)
            assert shown == Resource({each: model.runtime(name, each) or 0 for each in shown}), name
            assert replay.tree.request(name) == Resource(
                nonzero({each: model.request(name, each) for each in step["total_for_quotas"] | dict(shown)})
            )


@pytest.mark.parametrize("scenario", scenarios("admission", "regular"))
def test_admission(scenario: Mapping[str, Any]) -> None:
    """Pods are admitted as in Koordinator, and denied with the same first reason."""
    quota, name = quota_of(scenario), scenario["name"]
    differing = set()
    for step in scenario["steps"]:
        if step["op"] != "admit":
            take(quota, step)
            continue
        pod, recorded = read_pod(step["pod"]), step["result"]
        answer = admitted(quota, pod)
        if answer != recorded:
            differing.add(BEYOND_DEFAULT if recorded["admitted"] else UNASKED)
            requested = {each for each in recorded.get("exceeded", ()) if pod.usage.get(each)}
            assert not requested or requested == set(answer["exceeded"]), step

    assert differing == {known for known in (UNASKED, BEYOND_DEFAULT) if name in known}


@pytest.mark.parametrize("scenario", scenarios("revoke", "regular"))
def test_revoke(scenario: Mapping[str, Any]) -> None:
    """For a group above its runtime, the victims are the same, in the same order."""
    quota, result = quota_of(scenario), scenario["result"]
    shown = {
        "runtime": {name: amounts(quota.tree.runtime(name)) for name in result["runtime"]},
        "used": {name: amounts(quota.tree.used(name)) for name in result["used"]},
        "over_used": sorted({each.name for each in quota.over_used()}),
        "revoked": {name: list(quota.plan_revoke(name).victims) for name in result["revoked"]},
    }
    recorded = {
        "runtime": {name: nonzero(values) for name, values in result["runtime"].items()},
        "used": {name: nonzero(values) for name, values in result["used"].items()},
        "over_used": sorted(name for name, is_over in result["over_used"].items() if is_over),
        "revoked": result["revoked"],
    }

    assert (shown == recorded) is (scenario["name"] not in REVOKE_IDLE_SCALING)


@pytest.mark.parametrize("scenario", scenarios("validation"))
def test_validation(scenario: Mapping[str, Any]) -> None:
    """The same changes are accepted, and refused for the same first reason; a group below itself is refused, too."""
    quota = ElasticQuota(ElasticTree())
    for number, step in enumerate(scenario["steps"]):
        recorded = {field: step[field] for field in ("accepted", "category") if field in step}
        if scenario["name"] == "corner-cycle" and number > 2:
            recorded = {"accepted": False, "category": "cycle"}

        if recorded.get("accepted") and step.get("quota", {}).get("raw_shared_weight"):
            # Koordinator does not look at weights if only they change; a manifest with unreadable ones is refused here.
            recorded = {"accepted": False, "category": "bad_shared_weight"}
        assert judged(quota, step) == recorded, f"step {number}: {step}"
