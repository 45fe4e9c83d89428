"""Plans that lower limits below the usage or by more than 10 % have to be confirmed."""

from __future__ import annotations

import pytest

from support.partition_fixtures import SUE, changing_nothing, memory
from support.server_fixtures import UPLOAD, client
from ugm import Partition, RequestError, parse_config
from ugm.config import PartitionConfig

TEXT = """
partitions:
- name: default
  queues:
  - name: a
    resources: {max: {memory: 100, gpu: 10}}
    maxapplications: 20
    limits:
    - users: ["*"]
      maxresources: {memory: 50}
      ugm: {maxpending: 10}
"""


def config(before: str = "", after: str = "") -> PartitionConfig:
    """Return the configuration with some other text."""
    return parse_config(TEXT.replace(before, after)).partition()


def used(amount: int) -> Partition:
    """Return a partition that uses some memory."""
    partition = Partition(config())
    assert partition.submit("app", SUE, "root.a")
    assert partition.allocate("a", "app", memory(amount))
    return partition


@pytest.mark.parametrize(
    ("before", "after", "risks"),
    [
        ("memory: 100", "memory: 90", []),
        ("memory: 100", "memory: 89", ["queue root.a: 89 memory instead of 100 memory"]),
        ("gpu: 10", "gpu: 9", []),
        ("gpu: 10", "gpu: 8", ["queue root.a: 8 gpu instead of 10 gpu"]),
        ("maxapplications: 20", "maxapplications: 17", ["queue root.a: 17 instead of 20"]),
        ("memory: 50", "memory: 30", ["user '*' in root.a: 30 memory instead of 50 memory"]),
        ("maxpending: 10", "maxpending: 8", ["pending user '*' in root.a: 8 instead of 10"]),
        (", gpu: 10", "", []),
        ("gpu: 10", "gpu: 100", []),
        (
            "memory: 50",
            "memory: 20",
            [
                "user 'sue' in root.a: 20 memory, below the usage of 25 memory",
                "user '*' in root.a: 20 memory instead of 50 memory",
            ],
        ),
    ],
)
def test_risks(before: str, after: str, risks: list[str]) -> None:
    """Risks are limits that fall below the usage, and limits that fall by more than a tenth."""
    partition = used(25)
    plan = partition.plan(config(before, after))
    assert [str(risk) for risk in plan.risks] == risks
    assert plan.to_dict()["risks"] == [risk.to_dict() for risk in plan.risks]
    if risks:
        with changing_nothing(partition), pytest.raises(RequestError, match="has to be confirmed") as caught:
            partition.apply(plan)
        assert risks[0] in str(caught.value)
    partition.apply(plan, confirm=True)
    assert partition.config == config(before, after)


def test_upload() -> None:
    """An upload refuses risks that are not confirmed, and changes nothing then."""
    partition = used(25)
    rest = client(partition)

    def upload(text: str, query: str = "") -> int:
        return rest.put(f"/api/v1/config{query}", content=text, headers=UPLOAD).status_code

    lowered = TEXT.replace("memory: 100", "memory: 60")
    refused = rest.put("/api/v1/config", content=lowered, headers=UPLOAD)
    assert (refused.status_code, refused.json()["code"]) == (409, "unconfirmed")
    assert "default: queue root.a: 60 memory instead of 100 memory" in refused.json()["detail"]
    assert refused.json()["risks"] == ["default: queue root.a: 60 memory instead of 100 memory"]
    assert partition.config == config()
    assert upload(TEXT.replace("memory: 100", "memory: 95"), "?confirm=false") == 200
    assert upload(lowered, "?confirm=true") == 200
    assert partition.config == config("memory: 100", "memory: 60")
    assert upload(TEXT.replace("memory: 100", "memory: 50")) == 409
    assert upload(TEXT, "?confirm=maybe") == 400
