"""Probable mistakes in configurations: reported with their place, without refusing the file."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from support.logs import own_records
from ugm import Partition, load_config, parse_config
from ugm.config import review_config

CPU = "partitions:\n- queues:\n  - name: a\n    resources: {max: {cpu: 8}}\n"
OLD = "partitions: [{queues: [{name: ads, resources: {max: {memory: 800000, vcore: 80000}}}]}]"


def test_value_has_the_warnings(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The value of a text and of a file has the warnings with their places, and each reading logs them once."""
    file = tmp_path / "queues.yaml"
    file.write_text(CPU)
    with caplog.at_level(logging.WARNING):
        config = load_config(file)
    assert [(one.file, one.line, one.column, one.code) for one in config.warnings] == [
        (str(file), 4, 23, "resource-name-misspelt")
    ]
    assert [record.getMessage().count("'cpu'") for record in own_records(caplog)] == [1]
    assert parse_config(CPU).warnings[0].excerpt == "    resources: {max: {cpu: 8}}\n" + " " * 22 + "^"


def test_old_units() -> None:
    """Amounts in the units of old files get one warning that names both readings."""
    (warning,) = parse_config(OLD).warnings
    assert warning.code == "units-old"
    for reading in ("800,000 bytes", "80,000 cores", "800G", "80 cores"):
        assert reading in warning.message


ELASTIC = """
partitions:
- ugm:
    elastic:
      groupby: [{source: queue, names: {root.ml: vision}}]
      groups: [{name: vision, max: {gpu: 8}}]
  queues:
  - name: ml
  - name: NEW
"""
TREE = """
partitions:
- ugm:
    quotatrees:
    - tree:
        kind: QuotaTree
        metadata: {name: company}
        spec:
          resourceNames: [vcore]
          nodes:
            company: {parent: nil, hard: "true", quota: {vcore: "90"}}
            ml: {parent: company, hard: "false", quota: {vcore: "60"}}
      groupby: [{source: queue}]
  queues: [{name: ml}, {name: NEW}]
"""


DEFAULT = TREE.replace("groupby", "defaultgroup: ml\n      groupby")


@pytest.mark.parametrize(
    ("text", "model"),
    [
        (ELASTIC, "the elastic groups"),
        (TREE, "the quota tree 'company'"),
        # The default is for queues that no source maps, and not for those that are mapped to a missing group.
        (DEFAULT, "the quota tree 'company'"),
    ],
)
def test_queues_without_a_group(text: str, model: str) -> None:
    """A queue that no source maps to a group denies every request, which is a warning at the queue and in a plan."""
    (warning,) = parse_config(text.replace("NEW", "speech")).warnings
    assert (warning.code, warning.line) == ("queue-without-group", text.partition("NEW")[0].count("\n") + 1)
    assert "the queue root.speech denies every request" in warning.message
    assert model in warning.message
    partition = Partition(parse_config("partitions: [{queues: []}]").partition())
    plan = partition.plan(parse_config(text.replace("NEW", "speech")).partition())
    assert plan.warnings == (warning.message,)
    assert warning.message in str(plan)
    assert plan.to_dict()["warnings"] == [warning.message]


def test_queues_with_a_default_group() -> None:
    """A queue that no source maps belongs to the default group, without a warning."""
    assert not parse_config(DEFAULT.replace("queue}", "queue, names: {root.ml: ml}}")).warnings


QUEUE = "partitions: [{queues: [{name: a, resources: {max: {AMOUNTS}}}]}]"


def suggestions(*names: str, known: tuple[str, ...] = ()) -> dict[str, str]:
    """Return what was probably meant by the resources of a queue."""
    review = review_config(QUEUE.replace("AMOUNTS", ", ".join(f"{name}: 1" for name in names)), known=known)
    assert review.problems == ()
    assert all(warning.code == "resource-name-misspelt" for warning in review.warnings)
    return {warning.path.rpartition("max.")[2]: warning.message.split("'")[-2] for warning in review.warnings}


def test_names_of_a_cluster() -> None:
    """Names that are known to be right are never reported, and others are compared with them."""
    assert suggestions("cpu", "mem", known=("cpu", "mem")) == {}
    assert suggestions("nvidia.com/GPU", "fpgas", known=("nvidia.com/gpu", "fpga")) == {
        "nvidia.com/GPU": "nvidia.com/gpu",
        "fpgas": "fpga",
    }


def test_names_elsewhere() -> None:
    """A name is compared with those that the rest of the configuration uses more often."""
    text = """
partitions:
- limits: [{users: [ana], maxresources: {licence: 1, gpu: 1}}]
  queues:
  - {name: a, resources: {max: {licence: 1}, guaranteed: {gpu: 1}}, childtemplate: {resources: {max: {licnece: 1}}}}
  - {name: b, resources: {max: {GPU: 4}}}
  nodesortpolicy: {type: fair, resourceweights: {licences: 2}}
"""
    review = review_config(text)

    assert [(warning.line, warning.column, warning.path) for warning in review.warnings] == [
        (5, 103, "partitions[0].queues[0].childtemplate.resources.max.licnece"),
        (6, 33, "partitions[0].queues[1].resources.max.GPU"),
        (7, 50, "partitions[0].nodesortpolicy.resourceweights.licences"),
    ]
    assert review.config == parse_config(text)
