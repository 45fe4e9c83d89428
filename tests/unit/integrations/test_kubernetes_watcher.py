"""The watcher of pods: what it adopts, corrects, confirms and ends, from lists and events that a test gives it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import pytest

from support.kubernetes_reviews import pod
from ugm import Partition, Resource, UserGroup, parse_config
from ugm.integrations import Grants
from ugm.integrations.kubernetes.admission import TENTATIVE, OwnerPolicy
from ugm.integrations.kubernetes.watcher import Watcher
from ugm.kubernetes import ManifestError

CONFIG: Final = parse_config(
    """
partitions:
- placementrules: [{name: provided}, {name: tag, value: namespace}]
  queues:
  - name: dev
    resources: {max: {vcore: 4}}
  - name: other
  ugm: {families: {gpu: [a100, v100]}}
"""
).partition()
ANA: Final = UserGroup("ana", ("lab",))


class Scene:
    """A watcher with a partition and the objects of a cluster."""

    def __init__(self) -> None:
        self.now = 1_800_000_000
        self.partition: Final = Partition(CONFIG, clock=lambda: self.now)
        self.pods: list[dict[str, Any]] = []
        self.namespaces: list[dict[str, Any]] = [{"metadata": {"name": "dev"}}]
        self.calls: Final[list[str]] = []
        self.grants: Final = Grants(self.partition, "kubernetes", tentative=TENTATIVE, clock=lambda: self.now)
        self.nodes: list[dict[str, Any]] = []
        self.watcher = Watcher(self.grants, self._list, OwnerPolicy())

    async def _list(self, path: str) -> list[dict[str, Any]]:
        self.calls.append(path)
        known = {"/api/v1/pods": self.pods, "/api/v1/namespaces": self.namespaces, "/api/v1/nodes": self.nodes}
        return known[path]

    def know_models(self) -> None:
        """Let a label of nodes name the models of GPUs."""
        self.watcher = Watcher(self.grants, self._list, OwnerPolicy(), {"model=V100": "gpu:v100"})

    def compare(self) -> None:
        """Compare the ledger with the list."""
        asyncio.run(self.grants.reconcile(self.watcher.list_work))

    def event(self, kind: str | None, manifest: Mapping[str, Any]) -> None:
        """Deliver an event of the watch."""
        asyncio.run(self.watcher.pod_changed(type=kind, body=manifest, logger=None))

    def grant(self, manifest: Mapping[str, Any], cores: int) -> str:
        """Charge a pod tentatively, and return its uid."""
        uid: str = manifest["metadata"]["uid"]
        asyncio.run(self.grants.grant(uid, ANA, "root.dev", [(uid, Resource(vcore=1000 * cores, pods=1))]))
        return uid

    def charges(self) -> dict[str, tuple[str, str, int]]:
        """Return the user, the queue and the thousandths of cores of each pod."""
        return {
            one.application_id.removeprefix("kubernetes/"): (one.user.name, one.queue_path, one.usage.get("vcore", 0))
            for one in self.partition.applications()
        }

    def models(self) -> list[str]:
        """Return the model of the GPUs of each pod."""
        return [name for one in self.partition.allocations() for name in one.usage if ":" in name]


@pytest.fixture(name="scene")
def _scene() -> Scene:
    return Scene()


def uid_of(manifest: Mapping[str, Any]) -> str:
    """Return the uid of a pod."""
    uid: str = manifest["metadata"]["uid"]
    return uid


# Lists


def test_running_pods_are_adopted(scene: Scene) -> None:
    """A pod without a charge is charged to the owner that it names, or to its service account, also above limits."""
    named = pod("3", user="ana", annotations={"ugm/groups": "lab"}, activeDeadlineSeconds=600)
    unnamed = pod("2", serviceAccountName="builder")
    elsewhere = pod("1", namespace="other", annotations={"ugm/user": "a@b", "yunikorn.apache.org/queue": "root.other"})
    scene.pods = [named, unnamed, elsewhere]
    scene.namespaces.append({"metadata": {"name": "other"}})
    scene.compare()
    assert scene.charges() == {
        uid_of(named): ("ana", "root.dev", 3000),
        uid_of(unnamed): ("system:serviceaccount:dev:builder", "root.dev", 2000),
        uid_of(elsewhere): ("a@b", "root.other", 1000),
    }
    assert sorted(str(one.duration) for one in scene.partition.allocations()) == ["600", "None", "None"]
    groups = {one.user.name: one.user.groups for one in scene.partition.applications()}
    assert groups["ana"] == ("lab",)
    scene.partition.verify()


def test_running_pods_use_the_models_of_their_nodes(scene: Scene) -> None:
    """A pod of any model is charged with one until its node is known."""
    scene.know_models()
    scene.nodes = [{"metadata": {"name": "old", "labels": {"model": "V100"}}}, {"metadata": {"name": "new"}}]
    waiting = pod("1", requests={"gpu": "1"})
    scene.pods = [waiting, pod("1", requests={"gpu": "1"}, nodeName="new")]
    scene.compare()
    assert scene.models() == ["gpu:a100", "gpu:a100"]

    waiting["spec"]["nodeName"] = "old"
    for _ in range(2):
        scene.compare()
        assert scene.models() == ["gpu:v100", "gpu:a100"]
    scene.partition.verify()


# Namespaces


def test_settings_of_namespaces(scene: Scene) -> None:
    """They are those of the last list; a new namespace is looked up, and an invalid one denies its pods."""
    scene.compare()
    annotations = {"yunikorn.apache.org/namespace.quota": '{"cpu": "2"}'}
    scene.namespaces.append({"metadata": {"name": "new", "annotations": annotations}})
    assert asyncio.run(scene.watcher.find_namespace("new")).max_resources == Resource(vcore=2000)
    scene.calls.clear()
    scene.namespaces[0] = {"metadata": {"name": "dev", "annotations": {next(iter(annotations)): "2"}}}
    assert asyncio.run(scene.watcher.find_namespace("dev")).max_resources is None
    assert not scene.calls
    scene.pods = [running := pod("1")]
    scene.compare()
    assert list(scene.charges()) == [uid_of(running)]
    with pytest.raises(ManifestError, match=r"namespace\.quota"):
        asyncio.run(scene.watcher.find_namespace("dev"))


# Events


def test_events_confirm_and_end(scene: Scene) -> None:
    """A pod that is seen lasts; one that is gone or has finished ends. Exempt pods and unknown ones do not matter."""
    scene.compare()
    first, second = pod(), pod()
    for manifest in (first, second):
        scene.grant(manifest, 1)
        for _ in range(2):
            scene.event("ADDED", manifest)
    assert {one.duration for one in scene.partition.allocations()} == {None}
    scene.event("DELETED", first)
    scene.event("MODIFIED", {**second, "status": {"phase": "Failed"}})
    for manifest in (pod(namespace="kube-system"), pod()):
        scene.event(None, manifest)
    assert not scene.charges()
