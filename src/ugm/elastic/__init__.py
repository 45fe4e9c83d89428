"""Elastic quotas: guaranteed minimum, maximum, and a fair share that is borrowed and returned."""

from ugm.elastic.admission import AdmissionRules, RuntimeViolation
from ugm.elastic.errors import GroupError, Refusal
from ugm.elastic.group import DEFAULT_GROUP, ROOT_GROUP, SYSTEM_GROUP, ElasticGroup
from ugm.elastic.pods import Pod
from ugm.elastic.preemption import PreemptionPlan
from ugm.elastic.quota import ElasticQuota
from ugm.elastic.revoke import OveruseClock, RevokePlan
from ugm.elastic.sharing import Round, Shared, Sharer, share
from ugm.elastic.tree import ElasticTree

__all__ = [
    "DEFAULT_GROUP",
    "ROOT_GROUP",
    "SYSTEM_GROUP",
    "AdmissionRules",
    "ElasticGroup",
    "ElasticQuota",
    "ElasticTree",
    "GroupError",
    "OveruseClock",
    "Pod",
    "PreemptionPlan",
    "Refusal",
    "RevokePlan",
    "Round",
    "RuntimeViolation",
    "Shared",
    "Sharer",
    "share",
]
