"""Decisions about pods and templates of pods, the users that they are charged to, and the server that answers reviews.

A pod is an application with one allocation: its requests, and one of the resource ``pods``. The id of both is the uid
of the pod. An increase of a running pod is one more allocation, because the API server may still reject it. A decrease
changes nothing here: the watcher corrects the charge when the pod is smaller.

A person who creates a pod is its owner. Most pods are created by a controller of Kubernetes, from a template that a
person has created. The template names the owner: the label ``ugm/user``, and the annotation ``ugm/groups`` with the
names of groups, separated by commas. A user name that is not a valid value of a label is an annotation ``ugm/user``.

Only trusted creators may name another owner than themselves. So a person can neither charge someone else, nor keep a
pod out of the own limits: a template without an owner, or with groups that other limits apply to, is denied.

The server has the paths ``POST /kubernetes/admit`` and ``GET /healthz``.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias, cast

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from ugm._json_values import JsonObject
from ugm.decision import Decision, amount_for_people
from ugm.errors import RequestError, UgmError, quote
from ugm.identity import UserGroup
from ugm.integrations.grants import GrantDeniedError, Grants, Remedy
from ugm.integrations.kubernetes.reviews import API_VERSION, TEMPLATES, Review, allowed, denied, read_review, review_of
from ugm.kubernetes import ManifestError, NamespaceTerms, PodTerms, pod_usage, read_pod
from ugm.kubernetes.manifests import Fields
from ugm.kubernetes.objects import NOTHING
from ugm.partition import Admission, Subject, UserInQueue
from ugm.resources import Resource

USER: Final = "ugm/user"
GROUPS: Final = "ugm/groups"

#: The controllers of Kubernetes that create pods, or objects with templates of pods.
CONTROLLERS: Final = frozenset({"system:kube-controller-manager"}).union(
    f"system:serviceaccount:kube-system:{name}-controller"
    for name in ("cronjob", "daemon-set", "deployment", "job", "replicaset", "replication", "statefulset")
)

#: The namespaces whose pods are not charged.
EXEMPT: Final = frozenset({"kube-node-lease", "kube-public", "kube-system", "ugm-system"})

#: The largest request in bytes. Objects of Kubernetes have up to 1.5 MiB, and a review can contain two.
_LARGEST: Final = 8 * 2**20
_LABEL_VALUE: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")


def read_claim(pod: Fields) -> UserGroup | None:
    """Return the owner that a pod or a template names; None if it names none.

    Raises:
        ManifestError: a value is not a text, or the label and the annotation name different users.
    """
    labels, annotations = (pod.mapping("metadata").mapping(kind) for kind in ("labels", "annotations"))
    label, annotation = labels.name(USER), annotations.name(USER)
    if label is not None and annotation not in {None, label}:
        raise annotations.error(USER, f"expected {quote(label)} as in the label")
    name = label or annotation
    groups = [group.strip() for group in (annotations.text(GROUPS) or "").split(",")]
    return None if name is None else UserGroup(name, dict.fromkeys(filter(None, groups)))


@dataclass(frozen=True, slots=True)
class OwnerPolicy:
    """The pods that are charged, and their owners."""

    #: The creators that may name the owner of a pod.
    trusted: frozenset[str] = CONTROLLERS
    #: The namespaces whose pods are not charged.
    exempt: frozenset[str] = EXEMPT
    #: Whether pods without an owner are charged to their service account. Otherwise they are denied.
    charges_service_accounts: bool = False

    def owner_of_pod(self, creator: UserGroup, pod: Fields, namespace: str) -> UserGroup:
        """Return the owner of a new pod.

        Raises:
            GrantDeniedError: the creator may not name this owner, or no owner is named.
            ManifestError: a field is invalid.
        """
        claim = read_claim(pod)
        if creator.name in self.trusted:
            return claim or self._unnamed(pod, namespace, f"Name it in the template: the label {USER}.")
        if claim:
            _require_own(claim, creator)
        return creator

    def owner_of_template(
        self, creator: UserGroup, template: Fields, namespace: str, before: Fields | None = None
    ) -> UserGroup:
        """Return the owner of the pods that a controller creates from a template.

        Args:
            creator: the user or the controller that creates or changes the template.
            template: the template.
            namespace: the namespace.
            before: the template that it replaces; None if it is new.

        Raises:
            GrantDeniedError: as for `owner_of_pod`.
            ManifestError: as for `owner_of_pod`.
        """
        claim = read_claim(template)
        is_kept = before is not None and read_claim(before) == claim
        if claim and creator.name not in self.trusted and not is_kept:
            _require_own(claim, creator)
        kind = "label" if _LABEL_VALUE.fullmatch(creator.name) else "annotation"
        return claim or self._unnamed(template, namespace, f"Set the {kind} {USER}: {quote(creator.name)}.")

    def owner_of_unknown(self, pod: Fields, namespace: str) -> UserGroup:
        """Return the owner of a pod that runs, and that the ledger does not have."""
        return read_claim(pod) or _service_account(pod, namespace)

    def _unnamed(self, pod: Fields, namespace: str, advice: str) -> UserGroup:
        if self.charges_service_accounts:
            return _service_account(pod, namespace)
        raise GrantDeniedError(f"The pod template does not name the user to charge. {advice}", Remedy.NOTHING)


def _require_own(claim: UserGroup, creator: UserGroup) -> None:
    """Check that an untrusted creator names no other user than itself, and no groups of others.

    Raises:
        GrantDeniedError: it does.
    """
    if claim.name != creator.name:
        text = f"{USER} is {quote(claim.name)}, but you are {quote(creator.name)} and can charge only your own limits."
        raise GrantDeniedError(text, Remedy.NOTHING)
    if foreign := set(claim.groups).difference(creator.groups):
        raise GrantDeniedError(f"{GROUPS} names {quote(min(foreign))}, which you do not belong to.", Remedy.NOTHING)


def _service_account(pod: Fields, namespace: str) -> UserGroup:
    name = pod.mapping("spec").name("serviceAccountName") or "default"
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    return UserGroup(f"system:serviceaccount:{namespace}:{name}", groups)


#: The seconds after which a charge ends if no pod appears for it; more than a request to the API server can take.
TENTATIVE: Final = 120
ONE_POD: Final = Resource(pods=1)

#: Returns the settings of a namespace.
FindNamespace: TypeAlias = Callable[[str], Awaitable[NamespaceTerms]]

_LOGGER: Final = logging.getLogger(__name__)
#: The per cent of a limit from which on a warning is added.
_NEAR: Final = 90
#: The seconds after which a review is denied. The API server waits for 5 seconds.
_DEADLINE: Final = 3.0
_LATE: Final = "The quota service does not answer. Try again in a few minutes."


class PodAdmission(NamedTuple):
    """Answers reviews."""

    #: The grants of the cluster.
    grants: Grants
    #: Returns the settings of a namespace.
    find_namespace: FindNamespace
    #: The pods that are charged, and their owners.
    policy: OwnerPolicy
    #: As for `ugm.kubernetes.pod_usage`.
    variants: Mapping[str, str] = NOTHING

    async def answer(self, request: Fields) -> JsonObject:
        """Return the answer to the request of a review. It is a denial if anything fails."""
        if request.values.get("operation") == "DELETE":
            return allowed()
        try:
            async with asyncio.timeout(_DEADLINE):
                return allowed(await self._decide(read_review(request)))
        except (GrantDeniedError, ManifestError, RequestError) as error:
            return denied(error)
        except Exception:
            _LOGGER.exception("a review is denied without a check")
            return denied(GrantDeniedError(_LATE, Remedy.SERVICE))

    async def _decide(self, review: Review) -> list[str]:
        """Return warnings if a request is allowed.

        Raises:
            GrantDeniedError: it is denied.
            ManifestError: a manifest is invalid.
        """
        if review.namespace in self.policy.exempt:
            return []
        match review:
            case Review(operation="CREATE", kind=("", "Pod"), sub_resource=""):
                return await self._create(review)
            case Review(operation="UPDATE", kind=("", "Pod"), sub_resource="resize"):
                return await self._resize(review)
            case Review(operation="CREATE" | "UPDATE", sub_resource="") if review.kind in TEMPLATES:
                return await self._review_template(review)
        return []

    # Pods

    async def _create(self, review: Review) -> list[str]:
        owner = self.policy.owner_of_pod(review.creator, review.object, review.namespace)
        pod = await self._read_pod(review.object, review.namespace)
        usage, duration = pod.usage + ONE_POD, deadline_of(review.object.mapping("spec"))
        if review.is_dry_run:
            return _require(await self._check(await self._subject(owner, pod), usage, duration))
        name, queue, quota = pod.uid or review.uid, pod.queue or "", pod.namespace.max_resources
        try:
            await self.grants.grant(name, owner, queue, [(name, usage)], tags=pod.tags, quota=quota, duration=duration)
        except RequestError:
            # A repeated review differs from a confirmed charge, which has no promised end any more.
            held = await self.grants.run(lambda partition: partition.allocation(self.grants.ledger_id(name)))
            if held is None or usage not in (held.usage, held.requested_usage):
                raise
        return await self._near_limits(name, usage)

    async def _resize(self, review: Review) -> list[str]:
        name = review.object.mapping("metadata").name("uid") or ""
        before, after = (pod_usage(pod.values, self.variants) for pod in (review.before, review.object))
        growth = Resource({key: more for key, amount in (after - before).items() if (more := max(amount, 0))})
        if review.is_dry_run and growth:
            return _require(await self._check(self.grants.ledger_id(name), growth))
        if growth:
            # `Grants.confirm`, which confirms the pod, must not confirm an increase that is not stored yet.
            duration = deadline_of(review.object.mapping("spec")) or TENTATIVE + 1
            await self.grants.extend(name, [(f"{name}/{review.uid}", growth)], duration=duration)
        return await self._near_limits(name, growth)

    async def _near_limits(self, name: str, usage: Resource) -> list[str]:
        """Return a text for each limit that an admitted pod has brought near its maximum."""
        with suppress(UgmError):  # the pod is admitted; a later review warns
            return [
                f"in use: {amount_for_people(resource, used)} of {amount_for_people(resource, maximum)} "
                f"({limit.kind} {limit.name} in {limit.queue_path})"
                for limit in await self.grants.run(lambda partition: partition.limits(self.grants.ledger_id(name)))
                for resource, maximum in (limit.max_resources or {}).items()
                if usage.get(resource) and 100 * (used := limit.usage.get(resource, 0)) >= _NEAR * maximum
            ]
        return []

    # Templates

    async def _review_template(self, review: Review) -> list[str]:
        path, number = TEMPLATES[review.kind]
        spec, before = review.object.at(path), review.before.at(path).mapping("template")
        template, is_update = spec.mapping("template"), review.operation == "UPDATE"
        if is_update and before.values == template.values:
            return []
        kept = before if is_update else None
        owner = self.policy.owner_of_template(review.creator, template, review.namespace, kept)
        pod = await self._read_pod(template, review.namespace)
        subject = await self._subject(owner, pod)
        if owner.name == review.creator.name:
            await self._require_same_groups(subject, await self._subject(review.creator, pod))
        usage = pod.usage + ONE_POD
        one = await self._check(subject, usage, deadline_of(template.mapping("spec")))
        if not one and not one.can_wait:
            raise GrantDeniedError.of(one)
        warnings = [] if read_claim(template) else [f"the pods are charged to {owner.name}"]
        # An update replaces pods that count already, and a DaemonSet has as many pods as the cluster has nodes.
        count = spec.values.get(number, 1) if number and not is_update else 0
        if type(count) is int and count > 0 and not await self._check(subject, usage * count):
            warnings.append(f"not all {count} pods can start now. {'' if one else one.for_people()}".rstrip())
        return warnings

    async def _require_same_groups(self, subject: UserInQueue, creator: UserInQueue) -> None:
        """Check that the limits of the same groups apply to the pods as to pods that the creator creates directly.

        Raises:
            GrantDeniedError: limits of other groups apply.
        """
        found, expected = [await self._groups(one) for one in (subject, creator)]
        if found != expected:
            names = ",".join(sorted(expected.intersection(creator.user.groups) or creator.user.groups[:1]))
            text = f"Set the annotation {GROUPS} of the pod template: {quote(names)}."
            raise GrantDeniedError(text, Remedy.NOTHING)

    async def _groups(self, subject: UserInQueue) -> set[str]:
        limits = await self.grants.run(lambda partition: partition.limits(subject))
        return {limit.name for limit in limits if limit.kind == "group"}

    # Queries

    async def _read_pod(self, pod: Fields, namespace: str) -> PodTerms:
        return read_pod(pod.values, await self.find_namespace(namespace), variants=self.variants)

    async def _check(self, subject: Subject, usage: Resource, duration: int | None = None) -> Decision:
        return await self.grants.run(lambda partition: partition.check(subject, usage, duration=duration))

    async def _subject(self, owner: UserGroup, pod: PodTerms) -> UserInQueue:
        """Return the owner in the queue of a pod.

        Raises:
            GrantDeniedError: no queue accepts the pod.
        """
        placement = await self.grants.run(lambda partition: partition.place(owner, pod.queue or "", pod.tags))
        if placement.queue_path is None:
            raise GrantDeniedError.of(Admission(placement, None))
        return UserInQueue(owner, placement.queue_path, pod.tags, pod.namespace.max_resources)


def deadline_of(spec: Fields) -> int | None:
    """Return the seconds that a pod may run; None if it has no limit."""
    seconds = cast("int | None", spec.values.get("activeDeadlineSeconds"))
    return seconds + 1 if seconds == TENTATIVE else seconds  # grants with this duration are tentative


def _require(decision: Decision) -> list[str]:
    """Return no warnings.

    Raises:
        GrantDeniedError: the decision is a denial.
    """
    if not decision:
        raise GrantDeniedError.of(decision)
    return []


def create_app(admission: PodAdmission) -> Starlette:
    """Return the application that answers the API server."""

    async def admit(request: Request) -> Response:
        if not 0 < int(request.headers.get("content-length", "0")) <= _LARGEST:
            return PlainTextResponse(f"expected a content-length of 1 to {_LARGEST}\n", 413)
        try:
            review, uid = review_of(await request.json())
        except (ManifestError, ValueError, RecursionError) as error:
            return PlainTextResponse(f"{error}\n", 400)
        answer = await admission.answer(review)
        body = {"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": {"uid": uid, **answer}}
        return JSONResponse(body)

    async def is_healthy(_: Request) -> Response:
        return PlainTextResponse("ready\n") if admission.grants.is_ready else PlainTextResponse("not ready\n", 503)

    return Starlette(routes=[Route("/kubernetes/admit", admit, methods=["POST"]), Route("/healthz", is_healthy)])
