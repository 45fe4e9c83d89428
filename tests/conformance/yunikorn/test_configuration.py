"""The verdicts of Apache YuniKorn on whole configurations, and what is said instead of its refusals.

`REFUSALS` maps each category of refusal to the codes of which at least one must be among those reported. Several codes
stand where one refusal of the peer is distinguished here, or where its first finding hides another.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

from support.vectors import cases, vectors
from ugm.config import dump_config, parse_config
from ugm.errors import ConfigError

REFUSALS: Final = {
    "acl-too-many-parts": {"acl-too-many-parts"},
    "duplicate-partition": {"partition-name-duplicate"},
    "group-apps-above-parent": {"limit-group-applications-above-ancestor", "limit-group-applications-missing"},
    "group-apps-above-parent-wildcard": {"limit-group-applications-above-wildcard", "limit-group-applications-missing"},
    "group-limit-above-parent": {"limit-group-above-ancestor"},
    "group-limit-above-parent-wildcard": {"limit-group-above-wildcard"},
    "group-wildcard-alone": {"limit-group-wildcard-alone"},
    "group-wildcard-not-last": {"limit-group-after-wildcard"},
    "guaranteed-above-max": {"queue-guaranteed-above-max"},
    "guaranteed-sum-above-max": {"queue-guaranteed-sum-above-max"},
    "guaranteed-sum-above-parent-guaranteed": {"queue-guaranteed-sum-above-guaranteed"},
    "limit-apps-above-queue": {"limit-applications-above-queue"},
    "limit-group-duplicate": {"limit-group-duplicate"},
    "limit-group-name-invalid": {"limit-group-name-invalid"},
    "limit-resources-above-queue": {"limit-resources-above-queue"},
    "limit-resources-not-positive": {"limit-resources-zero"},
    "limit-sets-nothing": {"limit-sets-nothing"},
    "limit-user-duplicate": {"limit-user-duplicate"},
    "limit-user-name-invalid": {"limit-user-name-invalid"},
    "limit-without-users-and-groups": {"limit-names-nobody"},
    "node-sort-policy-unknown": {"node-sort-policy-unknown"},
    "node-sort-weight-negative": {"node-sort-weight-negative"},
    "partition-limits-differ": {"partition-limits-differ"},
    "placement-below-leaf": {"placement-below-leaf"},
    "placement-filter-groups-invalid": {"placement-filter-groups-invalid"},
    "placement-filter-type-invalid": {"placement-filter-type-invalid"},
    "placement-filter-users-invalid": {"placement-filter-users-invalid"},
    "placement-queue-missing": {"placement-queue-missing"},
    "placement-queue-not-leaf": {"placement-queue-not-leaf", "placement-queue-not-parent"},
    "placement-rule-name-invalid": {"placement-rule-name-invalid"},
    "placement-second-qualified-path": {"placement-qualified-below-rule"},
    "quantity-invalid": {"quantity-invalid"},
    "quantity-overflow": {"quantity-invalid"},
    "quantity-suffix-invalid": {"quantity-invalid"},
    "queue-apps-above-parent": {"queue-applications-above-parent"},
    "queue-apps-missing-below-parent": {"queue-applications-missing"},
    "queue-max-above-parent": {"queue-max-above-parent"},
    "queue-name-duplicate": {"queue-name-duplicate"},
    "queue-name-invalid": {"queue-name-invalid"},
    "queues-missing": {"queues-missing"},
    "root-has-resources": {"root-has-resources"},
    "user-apps-above-parent": {"limit-user-applications-above-ancestor", "limit-user-applications-missing"},
    "user-apps-above-parent-wildcard": {"limit-user-applications-above-wildcard", "limit-user-applications-missing"},
    "user-limit-above-parent": {"limit-user-above-ancestor"},
    "user-limit-above-parent-wildcard": {"limit-user-above-wildcard"},
    "user-wildcard-not-last": {"limit-user-after-wildcard"},
    "yaml-duplicate-key": {"yaml-key-duplicate"},
    "yaml-syntax": {"yaml-syntax", "yaml-alias-unknown"},
    "yaml-unknown-field": {"field-unknown"},
    "yaml-wrong-type": {"wrong-type", "count-invalid", "boolean-invalid", "weight-invalid"},
}

#: What is done where the peer's verdict is not ours: the code that refuses, or None where the document is accepted.
DIFFERENCES: Final = {
    "empty-document": "partitions-missing",  # it configures nothing, and is likelier the wrong file
    "comment-only": "partitions-missing",
    "no-partitions": "partitions-missing",
    "null-partitions": "partitions-missing",
    "second-document-not-read": "yaml-second-document",  # the peer reads the first and is silent about the rest
    "octal-looking-quantity": None,  # the same verdict: a quantity is decimal, 010 is ten
    "boolean-words": None,  # the same verdict: the words of YAML 1.1, where a boolean is expected
    "template-not-checked": "quantity-invalid",  # the peer fails when it makes a queue of the template
    "root-upper-case": None,  # the same verdict: queue names are the same in any case
    "root-below-root": "queue-name-reserved",  # the peer then takes it for the root queue
    "unknown-resource-names": "resource-name-invalid",  # no request can ask for the empty name, or one with blanks
    "huge-application-count": "count-too-large",
    "too-huge-application-count": "count-too-large",  # the peer reads it as another number
    "float-application-count": "count-invalid",
    "guaranteed-sum-saturates": "queue-guaranteed-sum-above-max",  # the peer's sum stops at 64 bits, and then fits
    "null-user-name": "wrong-type",  # the peer drops the name, and then finds the list empty
    "fraction-cut-off": "count-invalid",
    "minus-zero": "count-invalid",
    # The same verdict: entries are held by entries of their name; wildcards hold names that no queue above has.
    "limit-check-not-transitive": None,
}


def _codes(text: str) -> set[str]:
    try:
        config = parse_config(text)
    except ConfigError as error:
        return {problem.code for problem in error.problems}
    assert parse_config(dump_config(config)) == config
    return set()


@pytest.mark.parametrize("case", cases(vectors("yunikorn/config_validation")))
def test_verdicts(case: Mapping[str, Any]) -> None:
    """A configuration is refused if the peer refuses it, and for the same reason."""
    codes = _codes(case["yaml"])

    if case["valid"]:
        assert codes == set()
    else:
        assert codes & REFUSALS[case["error"]]


@pytest.mark.parametrize("case", cases(vectors("yunikorn/differences/config"), sample=1))
def test_surprising_verdicts(case: Mapping[str, Any]) -> None:
    """Where the peer's verdict surprises, ours is stated in `DIFFERENCES`, with the reason."""
    code = DIFFERENCES[case["name"].removeprefix("cfg-corner-")]

    assert (code in _codes(case["yaml"])) if code else (_codes(case["yaml"]) == set())
