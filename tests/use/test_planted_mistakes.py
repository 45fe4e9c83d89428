"""Spelling mistakes in configurations are found, and real configurations have no false warnings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.places import ROOT
from ugm.config import review_config, review_file

GOOD = """
partitions:
- name: default
  placementrules:
  - {name: tag, value: namespace, create: true, parent: {name: fixed, value: root.research}}
  limits:
  - {limit: everyone, users: ["*"], maxresources: {vcore: 64, memory: 256Gi}, maxapplications: 50}
  queues:
  - name: research
    parent: true
    submitacl: "*"
    adminacl: ana physics
    maxapplications: 100
    properties: {application.sort.policy: fifo, preemption.delay: 30s, priority.offset: "5", preemption.policy: fence}
    resources: {guaranteed: {vcore: 8, memory: 32Gi}, max: {vcore: 80, memory: 320Gi, nvidia.com/gpu: 4}}
    childtemplate: {maxapplications: 10, resources: {max: {vcore: 4, memory: 16Gi, nvidia.com/gpu: 1}}}
    limits:
    - {users: [ana], groups: [physics], maxresources: {vcore: 40, nvidia.com/gpu: 2}, maxapplications: 20}
  nodesortpolicy: {type: binpacking, resourceweights: {vcore: 1.0, memory: 2.5}}
  preemption: {enabled: true, quotapreemptionenabled: false}
"""

#: A text of the configuration, its misspelling, and the right spelling.
MISTAKES = [
    # Keys
    ("partitions:", "partition:", "partitions"),
    ("  queues:", "  queue:", "queues"),
    ("  placementrules:", "  placementRules:", "placementrules"),
    ("  limits:\n  -", "  limit:\n  -", "limits"),
    ("maxresources: {vcore: 64", "maxresource: {vcore: 64", "maxresources"),
    ("maxapplications: 50", "max_applications: 50", "maxapplications"),
    ("maxapplications: 20", "maxaplications: 20", "maxapplications"),
    ("users: [ana]", "user: [ana]", "users"),
    ("groups: [physics]", "group: [physics]", "groups"),
    ("submitacl:", "submitAcl:", "submitacl"),
    ("adminacl:", "adminacls:", "adminacl"),
    ("    properties:", "    propertys:", "properties"),
    ("    resources: {g", "    resource: {g", "resources"),
    ("guaranteed: {", "guarantee: {", "guaranteed"),
    ("childtemplate:", "childTemplate:", "childtemplate"),
    ("nodesortpolicy:", "nodesortpolicies:", "nodesortpolicy"),
    ("resourceweights:", "resource_weights:", "resourceweights"),
    ("quotapreemptionenabled:", "quotapreemptionenable:", "quotapreemptionenabled"),
    ("create: true", "creates: true", "create"),
    ("value: namespace", "values: namespace", "value"),
    # Resources
    ("{vcore: 64", "{cpu: 64", "vcore"),
    ("{vcore: 64", "{vcores: 64", "vcore"),
    ("{vcore: 64", "{vCore: 64", "vcore"),
    ("{vcore: 64", "{vcpu: 64", "vcore"),
    ("memory: 256Gi", "mem: 256Gi", "memory"),
    ("memory: 256Gi", "Memory: 256Gi", "memory"),
    ("memory: 256Gi", "memroy: 256Gi", "memory"),
    ("nvidia.com/gpu: 2", "nvidia.com/gpus: 2", "nvidia.com/gpu"),
    ("nvidia.com/gpu: 2", "nvidia.com/GPU: 2", "nvidia.com/gpu"),
    ("nvidia.com/gpu: 2", "gpu: 2", "nvidia.com/gpu"),
    ("nvidia.com/gpu: 2", "nvida.com/gpu: 2", "nvidia.com/gpu"),
    # Properties and their values
    ("preemption.delay:", "preemption.dealy:", "preemption.delay"),
    ("application.sort.policy:", "application.sort.polcy:", "application.sort.policy"),
    ("priority.offset:", "priority.ofset:", "priority.offset"),
    ("preemption.policy:", "preemptionpolicy:", "preemption.policy"),
    ("policy: fence", "policy: fences", "fence"),
    ("policy: fifo", "policy: fif0", "fifo"),
    # Units and kinds
    ("memory: 256Gi", "memory: 256GB", "256G"),
    ("memory: 256Gi", "memory: 256gi", "256Gi"),
    ("vcore: 64,", "vcore: 0.5,", "500m"),
    ("type: binpacking", "type: binpackin", "binpacking"),
    ("name: fixed", "name: fixd", "fixed"),
]


def findings(text: str) -> list[str]:
    """Return the messages about a configuration."""
    review = review_config(text)
    return [one.message for one in (*review.problems, *review.warnings)]


def test_the_configuration_is_right() -> None:
    """Without a mistake there is no problem and no warning."""
    assert findings(GOOD) == []


@pytest.mark.parametrize(("right", "wrong", "spelling"), MISTAKES, ids=[wrong.strip() for _, wrong, _ in MISTAKES])
def test_mistakes_name_the_right_spelling(right: str, wrong: str, spelling: str) -> None:
    """Each spelling mistake gets a problem or a warning that names the right spelling."""
    assert right in GOOD
    pattern = rf"(did you mean '|allowed: .*|write .*|'){re.escape(spelling)}\b"
    assert any(re.search(pattern, message) for message in findings(GOOD.replace(right, wrong, 1)))


def test_examples_have_no_warnings() -> None:
    """No example has a warning."""
    files = [file for file in sorted((ROOT / "examples").glob("*.yaml")) if "partitions:" in file.read_text("utf-8")]
    assert {file.name: found for file in files if (found := (*(r := review_file(file)).problems, *r.warnings))} == {}


def page_texts(page: Path) -> list[str]:
    """Return the configurations on a page of the documentation."""
    return re.findall(r'(?:"""|```yaml)\n(partitions:\n.*?)(?:"""|```)', page.read_text("utf-8"), re.DOTALL)


def test_documentation_has_no_warnings() -> None:
    """No valid configuration of the documentation has a warning."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    reviews = [(page.name, review_config(text)) for page in pages for text in page_texts(page)]
    assert len(reviews) > 20
    assert {name: one.warnings for name, one in reviews if one.config is not None and one.warnings} == {}
