"""Replays of jobs that request models of GPUs, or any: their waits, and the usage of each model."""

from __future__ import annotations

from dataclasses import replace

from ugm import Resource, UserGroup, parse_config
from ugm.configuration import PartitionConfig
from ugm.elastic.model import GROUP_TAG
from ugm.simulation import Job, simulate

A100, V100, ANY = Resource({"gpu:a100": 1}), Resource({"gpu:v100": 1}), Resource(gpu=1)


def config(queue: str = "{}", settings: str = "") -> PartitionConfig:
    """Return a configuration with one queue and two models of GPUs."""
    families = f"{{families: {{gpu: [a100, v100]}}{settings}}}"
    return parse_config(f"partitions: [{{queues: [{{name: q, resources: {queue}}}], ugm: {families}}}]").partition()


def job(number: int, second: int, run_time: int, usage: Resource, group: str = "") -> Job:
    """Return a job, possibly of an elastic group."""
    tags = {GROUP_TAG: group} if group else {}
    return Job(number, second, run_time, "root.q", UserGroup(f"user{number}"), usage, tags)


def test_a_job_for_any_model_starts_when_one_is_free() -> None:
    """It does not matter which model was denied first."""
    for first, second in ((A100, V100), (V100, A100)):
        jobs = [job(1, 0, 10, first), job(2, 0, 99, second), job(3, 1, 5, ANY), job(4, 2, 5, first)]
        report = simulate(jobs, config("{max: {gpu:a100: 1, gpu:v100: 1}}"))

        assert [(user, wait.total) for user, wait in report.users if wait.total] == [("user4", 13), ("user3", 9)]
        assert report.is_clean


def test_the_report_has_families_and_models() -> None:
    """A job for any model is counted with the one that it got."""
    cluster = Resource({"gpu:a100": 1, "gpu:v100": 1})
    report = simulate([job(1, 0, 10, A100), job(2, 0, 10, ANY)], config(), cluster=cluster)

    assert [(use.resource, use.area, use.share) for use in report.utilization] == [
        ("gpu", 20, 1),
        ("gpu:a100", 10, 1),
        ("gpu:v100", 10, 1),
    ]
    assert {limit.resource: (limit.limit, limit.peak) for limit in report.limits} == {
        "gpu": (2, 2),
        "gpu:a100": (1, 1),
        "gpu:v100": (1, 1),
    }


def test_an_evicted_job_waits_for_any_model() -> None:
    """The owner gets its model back, and the borrower starts again with the other one."""
    groups = "[{name: a, min: {gpu:v100: 1}, max: {gpu: 2}}, {name: b, min: {gpu:a100: 1}, max: {gpu: 2}}]"
    settings = f", elastic: {{total: {{gpu:a100: 1, gpu:v100: 1}}, groups: {groups}, groupby: [{{tag: {GROUP_TAG}}}]}}"
    jobs = [job(1, 0, 30, A100, "b"), job(2, 1, 100, ANY, "b"), job(3, 10, 60, V100, "a")]
    report = simulate(jobs, config(settings=settings), cluster=Resource({"gpu:a100": 1, "gpu:v100": 1}))

    assert [(one.borrower, one.owner, one.jobs, one.lost_seconds) for one in report.reclaims] == [("b", "a", 1, 9)]
    assert (report.waiting.delayed, report.end_time, report.is_clean) == (0, 130, True)


def test_shares_weight_models() -> None:
    """The order of users follows the weights of models: two A100 weigh less than three V100."""
    shares = ", fairshare: {defaultshares: 1, weights: {gpu: 1, gpu:a100: 1.4}}"
    amounts = (Resource({"gpu:a100": 2}), Resource({"gpu:v100": 3}), Resource(gpu=5))
    jobs = [job(number, number, 10 if number < 3 else 400, usage) for number, usage in enumerate(amounts, 1)]
    jobs += [replace(job(6 - number, 20, 10, amounts[2]), user=UserGroup(f"user{number}")) for number in (2, 1)]
    report = simulate(jobs, config("{max: {gpu: 5}}", shares), order="share")

    waits = {user: wait.max for user, wait in report.users}
    assert waits["user1"] < waits["user2"]
