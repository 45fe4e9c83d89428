"""Warnings about resource names that are probably misspelt."""

from __future__ import annotations

from ugm import parse_config
from ugm.config import review_config

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
