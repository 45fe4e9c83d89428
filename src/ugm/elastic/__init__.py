"""Elastic quotas: guaranteed minimum, maximum, and a fair share that is borrowed and returned."""

from ugm.elastic.admission import AdmissionRules, RuntimeViolation
from ugm.elastic.audit import verify
from ugm.elastic.errors import GroupError, Refusal
from ugm.elastic.explain import Account, Cap, Part, Shortage, explain, shortage
from ugm.elastic.group import DEFAULT_GROUP, ROOT_GROUP, SYSTEM_GROUP, ElasticGroup
from ugm.elastic.model import ElasticModel
from ugm.elastic.pods import Pod
from ugm.elastic.preemption import PreemptionPlan
from ugm.elastic.quota import ElasticQuota
from ugm.elastic.revoke import OveruseClock, RevokePlan
from ugm.elastic.sharing import Round, Shared, Sharer, share
from ugm.elastic.status import GroupStatus, status
from ugm.elastic.table import table
from ugm.elastic.tree import ElasticTree
from ugm.elastic.whatif import RuntimeChange, what_if

__all__ = [
    "DEFAULT_GROUP",
    "ROOT_GROUP",
    "SYSTEM_GROUP",
    "Account",
    "AdmissionRules",
    "Cap",
    "ElasticGroup",
    "ElasticModel",
    "ElasticQuota",
    "ElasticTree",
    "GroupError",
    "GroupStatus",
    "OveruseClock",
    "Part",
    "Pod",
    "PreemptionPlan",
    "Refusal",
    "RevokePlan",
    "Round",
    "RuntimeChange",
    "RuntimeViolation",
    "Shared",
    "Sharer",
    "Shortage",
    "explain",
    "share",
    "shortage",
    "status",
    "table",
    "verify",
    "what_if",
]
