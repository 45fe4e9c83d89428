"""Elastic quotas: a guaranteed minimum, a maximum, and a fair share that is borrowed and returned."""

from ugm.configuration.scheduler import ROOT_GROUP, ElasticGroup
from ugm.elastic.admission import (
    AdmissionRules,
    ElasticPreemptionPlan,
    GroupStatus,
    RevokePlan,
    RuntimeViolation,
    status,
)
from ugm.elastic.group import DEFAULT_GROUP, SYSTEM_GROUP, GroupError, Pod, Refusal
from ugm.elastic.model import ElasticModel
from ugm.elastic.quota import ElasticQuota
from ugm.elastic.sharing import Sharer, SharingResult, SharingRound, share
from ugm.elastic.tree import ElasticTree, verify

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
    "GroupStatus",
    "Pod",
    "Refusal",
    "RevokePlan",
    "RuntimeViolation",
    "Sharer",
    "SharingResult",
    "SharingRound",
    "share",
    "status",
    "verify",
]
