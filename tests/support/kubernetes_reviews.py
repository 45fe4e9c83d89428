"""Objects of Kubernetes and reviews of them, written from the documented schemas."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, Final

REPLICA_SET_CONTROLLER: Final = "system:serviceaccount:kube-system:replicaset-controller"
_API_VERSION: Final = "admission.k8s.io/v1"
#: The API group and the plural of each kind.
_KINDS: Final = {
    "ConfigMap": ("", "configmaps"),
    "CronJob": ("batch", "cronjobs"),
    "DaemonSet": ("apps", "daemonsets"),
    "Deployment": ("apps", "deployments"),
    "Job": ("batch", "jobs"),
    "Pod": ("", "pods"),
    "ReplicaSet": ("apps", "replicasets"),
    "StatefulSet": ("apps", "statefulsets"),
}
_NUMBERS: Final = itertools.count(1)


def new_uid() -> str:
    """Return a uid that was not used before."""
    return f"00000000-0000-4000-8000-{next(_NUMBERS):012x}"


def pod(
    cpu: str = "1",
    *,
    uid: str | None = None,
    name: str = "main",
    namespace: str = "dev",
    user: str | None = None,
    phase: str = "Pending",
    annotations: Mapping[str, str] | None = None,
    requests: Mapping[str, str] | None = None,
    **spec: object,
) -> dict[str, Any]:
    """Return a pod as a validating webhook gets it: with a uid, and with the defaults of the API server."""
    labels = {"app": "example", **({} if user is None else {"ugm/user": user})}
    metadata = {"name": name, "namespace": namespace, "uid": uid or new_uid(), "labels": labels}
    container = {"name": "main", "image": "example", "resources": {"requests": {"cpu": cpu, **(requests or {})}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, **({} if annotations is None else {"annotations": dict(annotations)})},
        "spec": {"containers": [container], "serviceAccountName": "default", "restartPolicy": "Always", **spec},
        "status": {"phase": phase, "qosClass": "Burstable"},
    }


def deployment(
    cpu: str = "1",
    *,
    kind: str = "Deployment",
    pods: int | None = 1,
    user: str | None = "ana",
    annotations: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return a workload with a template of pods."""
    made = pod(cpu, user=user, annotations=annotations)
    template = {"metadata": {key: made["metadata"].get(key) for key in ("labels", "annotations")}, "spec": made["spec"]}
    count = {} if pods is None else {"parallelism" if kind in {"Job", "CronJob"} else "replicas": pods}
    spec: dict[str, Any] = {**count, "template": template}
    if kind == "CronJob":
        spec = {"schedule": "0 * * * *", "jobTemplate": {"spec": spec}}
    group = _KINDS[kind][0]
    metadata = {"name": "example", "namespace": "dev", "uid": new_uid()}
    return {"apiVersion": f"{group}/v1", "kind": kind, "metadata": metadata, "spec": spec}


def review(
    manifest: Mapping[str, Any] | None,
    operation: str = "CREATE",
    *,
    user: str = "ana",
    groups: tuple[str, ...] = (),
    before: Mapping[str, Any] | None = None,
    dry_run: bool = False,
    sub_resource: str | None = None,
    uid: str | None = None,
) -> dict[str, Any]:
    """Return the review that the API server sends for a request."""
    subject = manifest or before or {}
    group, plural = _KINDS[subject["kind"]]
    kind = {"group": group, "version": "v1", "kind": subject["kind"]}
    resource = {"group": group, "version": "v1", "resource": plural}
    request: dict[str, Any] = {
        "uid": uid or new_uid(),
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "name": subject["metadata"]["name"],
        "namespace": subject["metadata"]["namespace"],
        "operation": operation,
        "userInfo": {"username": user, "groups": [*groups, "system:authenticated"]},
        "object": manifest,
        "oldObject": before,
        "dryRun": dry_run,
        "options": {"kind": f"{operation.title()}Options", "apiVersion": "meta.k8s.io/v1"},
    }
    if sub_resource is not None:
        request |= {"subResource": sub_resource, "requestSubResource": sub_resource}
    return {"kind": "AdmissionReview", "apiVersion": _API_VERSION, "request": request}
