"""Reviews of the API server, ``AdmissionReview`` of ``admission.k8s.io/v1``.

Source: Kubernetes, "Dynamic Admission Control", and the reference of ``admission.k8s.io/v1`` and of ``Status``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, cast

from ugm._json_values import JsonObject
from ugm.errors import UgmError
from ugm.identity import UserGroup
from ugm.integrations.grants import GrantDeniedError, Remedy
from ugm.kubernetes import ManifestError
from ugm.kubernetes.manifests import Fields

API_VERSION: Final = "admission.k8s.io/v1"


#: The workloads whose controllers create pods, by API group and kind: the place of the specification with the template
#: of the pods, and the field next to the template with their number.
TEMPLATES: Final[Mapping[tuple[str, str], tuple[tuple[str, ...], str]]] = {
    ("", "ReplicationController"): (("spec",), "replicas"),
    ("apps", "DaemonSet"): (("spec",), ""),
    ("apps", "Deployment"): (("spec",), "replicas"),
    ("apps", "ReplicaSet"): (("spec",), "replicas"),
    ("apps", "StatefulSet"): (("spec",), "replicas"),
    ("batch", "CronJob"): (("spec", "jobTemplate", "spec"), "parallelism"),
    ("batch", "Job"): (("spec",), "parallelism"),
}


class Review(NamedTuple):
    """A request of a review."""

    #: The id of the review, not of the object.
    uid: str
    operation: str
    #: The API group and the kind of the object.
    kind: tuple[str, str]
    sub_resource: str
    namespace: str
    is_dry_run: bool
    #: The user or the controller that sends the request, with the groups.
    creator: UserGroup
    #: The object, and the one that it replaces; empty if there is none.
    object: Fields
    before: Fields


def review_of(body: object) -> tuple[Fields, str]:
    """Return the request of a review, and its uid.

    Raises:
        ManifestError: the body is not a review with a uid.
    """
    if not isinstance(body, Mapping):
        raise ManifestError(("review",), None, "expected a JSON object")
    review = Fields(body)
    if (body.get("apiVersion"), body.get("kind")) != (API_VERSION, "AdmissionReview"):
        raise review.error("apiVersion", f"expected an AdmissionReview of {API_VERSION}")
    request = review.mapping("request")
    uid = request.name("uid")
    if uid is None:
        raise request.error("uid", "expected a text")
    return request, uid


def read_review(request: Fields) -> Review:
    """Read the request of a review.

    Raises:
        ManifestError: a field has another type.
        RequestError: the name of the user or of a group is invalid.
    """
    kind, info = request.mapping("kind"), request.mapping("userInfo")
    groups = cast("Iterable[str]", info.values.get("groups") or ())
    return Review(
        request.name("uid") or "",
        request.name("operation") or "",
        (kind.name("group") or "", kind.name("kind") or ""),
        request.name("subResource") or "",
        request.name("namespace") or "",
        request.values.get("dryRun") is True,
        UserGroup(info.name("username") or "", groups),
        Fields(request.mapping("object").values),
        Fields(request.mapping("oldObject").values),
    )


def allowed(warnings: Iterable[str] = ()) -> JsonObject:
    """Return the answer that allows a request."""
    return {"allowed": True, "warnings": [*warnings]}


def denied(error: UgmError) -> JsonObject:
    """Return the answer that denies a request, with a status whose message ``kubectl`` shows."""
    details: JsonObject = {}
    if not isinstance(error, GrantDeniedError):
        code, reason = 422, "Invalid"
    elif error.remedy is Remedy.SERVICE:
        code, reason, details = 503, "ServiceUnavailable", {"retryAfterSeconds": 10}
    else:
        causes = [{"reason": "QuotaExceeded", "message": str(one)} for one in error.violations]
        code, reason, details = 403, "Forbidden", {"causes": causes}
    status = {"status": "Failure", "code": code, "reason": reason, "message": str(error), "details": details}
    return {"allowed": False, "status": status}
