"""Elastic quotas: a guaranteed minimum, a maximum, and a fair share that is borrowed and returned."""

from ugm.elastic.admission import AdmissionRules, RuntimeViolation
from ugm.elastic.declared import declared_group
from ugm.elastic.eviction import ElasticPreemptionPlan, OveruseClock, RevokePlan
from ugm.elastic.explain import GroupShare, RuntimeCap, RuntimeExplanation, Shortage, explain, shortage
from ugm.elastic.group import DEFAULT_GROUP, ROOT_GROUP, SYSTEM_GROUP, ElasticGroup, GroupError, Refusal
from ugm.elastic.model import ElasticModel
from ugm.elastic.pods import Pod
from ugm.elastic.quota import ElasticQuota
from ugm.elastic.self_check import verify
from ugm.elastic.sharing import Sharer, SharingResult, SharingRound, share
from ugm.elastic.status import GroupStatus, status, table
from ugm.elastic.tree import ElasticTree
from ugm.elastic.what_if import RuntimeChange, what_if

__all__ = [
    "DEFAULT_GROUP",
    "ROOT_GROUP",
    "SYSTEM_GROUP",
    "AdmissionRules",
    "ElasticGroup",
    "ElasticModel",
    "ElasticPreemptionPlan",
    "ElasticQuota",
    "ElasticTree",
    "GroupError",
    "GroupShare",
    "GroupStatus",
    "OveruseClock",
    "Pod",
    "Refusal",
    "RevokePlan",
    "RuntimeCap",
    "RuntimeChange",
    "RuntimeExplanation",
    "RuntimeViolation",
    "Sharer",
    "SharingResult",
    "SharingRound",
    "Shortage",
    "declared_group",
    "explain",
    "share",
    "shortage",
    "status",
    "table",
    "verify",
    "what_if",
]
