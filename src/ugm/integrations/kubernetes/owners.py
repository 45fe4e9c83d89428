"""The owner of a pod: the user that it is charged to.

A person who creates a pod is its owner. Most pods are created by a controller of Kubernetes, from a template that a
person has created. The template names the owner: the label ``ugm/user``, and the annotation ``ugm/groups`` with the
names of groups, separated by commas. A user name that is not a valid value of a label is an annotation ``ugm/user``.

Only trusted creators may name another owner than themselves. So a person can neither charge someone else, nor keep a
pod out of the own limits: a template without an owner, or with groups that other limits apply to, is denied.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from ugm.errors import quote
from ugm.identity import UserGroup
from ugm.integrations.grants import GrantDeniedError, Remedy
from ugm.kubernetes.manifests import Fields

__all__ = ["CONTROLLERS", "EXEMPT", "GROUPS", "USER", "OwnerPolicy", "read_claim"]

USER: Final = "ugm/user"
GROUPS: Final = "ugm/groups"

#: The controllers of Kubernetes that create pods, or objects with templates of pods.
CONTROLLERS: Final = frozenset({"system:kube-controller-manager"}).union(
    f"system:serviceaccount:kube-system:{name}-controller"
    for name in ("cronjob", "daemon-set", "deployment", "job", "replicaset", "replication", "statefulset")
)

#: The namespaces whose pods are not charged.
EXEMPT: Final = frozenset({"kube-node-lease", "kube-public", "kube-system", "ugm-system"})

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
