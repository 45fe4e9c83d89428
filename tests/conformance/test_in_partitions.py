"""Every recorded scenario of elastic quotas and quota trees that a partition can express, through a partition.

The configuration of the partition declares the groups or the trees. `outside_partitions.json` lists the other
scenarios: for each reason those that are replayed only up to the first step that a partition cannot express.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from support.elastic_defects import BOTH_DEFECTS, DEFECTS, REVOKE_IDLE_SCALING, ROOT_REQUEST
from support.elastic_replay import nonzero
from support.partition_scenarios import ElasticScenario, InexpressibleError, TreeScenario, exceeded_groups
from support.places import TESTS
from support.quotatree_replay import agree, habits_in, steps_to_compare
from support.vectors import FOLDER, SAMPLE, cases, vectors
from ugm import ConfigError, RequestError
from ugm.elastic import DEFAULT_GROUP

#: The reason by the name of the scenario.
OUTSIDE: Final[Mapping[str, str]] = {
    name: reason
    for reason, names in json.loads((Path(__file__).parent / "outside_partitions.json").read_text()).items()
    for name in names
}


def require_listed(scenario: Mapping[str, Any], reason: str) -> None:
    """Require that the list has the reason; a folder with other scenarios may add names, but no reasons."""
    listed = OUTSIDE.get(scenario["name"], "")
    assert reason == listed or (FOLDER != TESTS / "vectors" and not listed and reason in OUTSIDE.values())


def regular(name: str, **options: Any) -> list[Any]:  # noqa: ANN401 - options of `cases`
    """Return the regular scenarios of a file of elastic quotas."""
    return cases([one for one in vectors(f"elastic/{name}") if one.get("class") == "regular"], **options)


# Elastic quotas


@pytest.mark.parametrize("scenario", regular("runtime", sample=SAMPLE))
def test_runtime(scenario: Mapping[str, Any]) -> None:
    """The reports of the model have the recorded requests, minimums, usages and runtimes of all groups."""
    require_listed(scenario, replayed(scenario, _check_reports))


def replayed(scenario: Mapping[str, Any], check: Any) -> str:  # noqa: ANN401 - one of the functions below
    """Replay a scenario; return why the partition cannot express a step, or an empty text."""
    try:
        partition = check(scenario)
    except ConfigError:
        return "the validation refuses the groups"
    except RequestError as error:
        if "is negative" not in error.reason:
            raise
        return "a group uses more than it requests, or a negative amount"
    except InexpressibleError as error:
        return str(error)
    partition.verify()
    return ""


def _check_reports(scenario: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a partition
    replay, differing = ElasticScenario(scenario), set()
    for step in scenario["steps"]:
        if step["op"] != "runtime":
            replay.change(step)
            continue
        report = replay.report(step)
        for field, shown in report.items():
            recorded = step[field] if field != "total_for_quotas" else {"": step[field]}
            found = shown if field != "total_for_quotas" else {"": shown}
            differing |= {field for name, amounts in found.items() if amounts != nonzero(recorded[name])}
    name = scenario["name"]
    if name in ROOT_REQUEST:
        assert differing == {"request"}
    else:
        assert bool(differing) is (name in DEFECTS | BOTH_DEFECTS)
    return replay.partition


@pytest.mark.parametrize("scenario", regular("admission", sample=SAMPLE))
def test_admission(scenario: Mapping[str, Any]) -> None:
    """Waiting pods are granted as in Koordinator, and denied for the same resources that they request."""
    require_listed(scenario, replayed(scenario, _check_decisions))


def _check_decisions(scenario: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a partition
    replay = ElasticScenario(scenario)
    for step in scenario["steps"]:
        if step["op"] != "admit":
            replay.change(step)
            continue
        answer, recorded, pod = replay.admit(step["pod"]), step["result"], step["pod"]
        if answer is None or answer == recorded:
            continue
        # Koordinator also denies a pod for resources that it does not request.
        requested = [name for name in recorded.get("exceeded", ()) if pod["request"].get(name)]
        # It applies no limit to the default group.
        is_default = pod.get("quota") == DEFAULT_GROUP and recorded["admitted"]
        assert is_default or (not recorded["admitted"] and answer.get("exceeded", []) == requested), step
    return replay.partition


@pytest.mark.parametrize("scenario", regular("revoke", sample=SAMPLE))
def test_exceeded_groups(scenario: Mapping[str, Any]) -> None:
    """The same groups use more than their runtime. Which pods they give up is an answer of `ElasticQuota` only."""
    require_listed(scenario, replayed(scenario, _check_overuse))


def _check_overuse(scenario: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a partition
    replay, result = ElasticScenario({**scenario, "steps": ()}), scenario["result"]
    for pod in scenario["pods"]:
        replay.place_pod(pod)
    groups = {group["group"]: group for group in replay.groups()}
    shown = {field: {name: nonzero(groups[name][field]) for name in result[field]} for field in ("runtime", "used")}
    recorded = {field: {name: nonzero(result[field][name]) for name in result[field]} for field in ("runtime", "used")}
    exceeded = exceeded_groups(replay.partition.exceeded_limits())
    agrees = shown == recorded and exceeded == sorted(name for name, is_over in result["over_used"].items() if is_over)
    assert agrees is (scenario["name"] not in REVOKE_IDLE_SCALING)
    return replay.partition


# Quota trees

FILES: Final = ("single_tree", "forest", "update", "undo", "corners", "quirks")


@pytest.mark.parametrize(
    "scenario", [case for name in FILES for case in cases(vectors(f"quotatree/{name}"), sample=2 * SAMPLE)]
)
def test_quota_trees(scenario: Mapping[str, Any]) -> None:
    """Answers and states agree up to a step that a partition cannot express, or at which a habit of MCAD matters."""
    require_listed(scenario, replayed(scenario, _check_tree))


def _check_tree(scenario: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a partition
    replay = TreeScenario(scenario)
    for number, step in enumerate(scenario["steps"][: max(steps_to_compare(scenario), 0)]):
        answer, recorded = replay.answer(step), step["result"]
        if step["op"] == "state":
            recorded = {"trees": recorded["trees"]}
        if not agree(answer, recorded):
            if replay.has_undone:
                raise InexpressibleError("the release of the latest allocation, which moves others back")
            assert habits_in(scenario["steps"][: number + 1], scenario), f"step {number}: {step}\n{answer}"
            raise InexpressibleError("a habit of MCAD that a partition does not have")
    return replay.partition
