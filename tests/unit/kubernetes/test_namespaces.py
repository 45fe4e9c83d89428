"""Namespaces: the quota and the parent queue in their annotations."""

from __future__ import annotations

import pytest
import yaml

from ugm import Resource
from ugm.kubernetes import ManifestError, NamespaceTerms, read_namespace

QUOTA = "yunikorn.apache.org/namespace.quota"
MAX_CPU = "yunikorn.apache.org/namespace.max.cpu"
MAX_MEMORY = "yunikorn.apache.org/namespace.max.memory"
PARENT = "yunikorn.apache.org/parentqueue"

#: The annotations of the document on resource quota management, in one namespace.
DOCUMENT = r"""
apiVersion: v1
kind: Namespace
metadata:
  name: finance
  annotations:
    yunikorn.apache.org/namespace.quota: "{\"cpu\": \"64\", \"memory\": \"100G\", \"nvidia.com/gpu\": \"1\"}"
    yunikorn.apache.org/parentqueue: root.production
"""


def namespace(annotations: object = None, **metadata: object) -> dict[str, object]:
    """Return a namespace with these annotations."""
    return {"kind": "Namespace", "metadata": {"name": "dev", "annotations": annotations, **metadata}}


def test_document_example() -> None:
    """The annotations of the document limit the queue to 64 cores, 100 GB and one GPU, below the parent queue."""
    assert read_namespace(yaml.safe_load(DOCUMENT)) == NamespaceTerms(
        "finance", Resource({"vcore": 64000, "memory": 100 * 10**9, "nvidia.com/gpu": 1}), "root.production"
    )


def test_quota_before_deprecated() -> None:
    """Where there is a quota the deprecated annotations are not used, for no resource, and may be nonsense."""
    found = read_namespace(namespace({QUOTA: '{"cpu": "1"}', MAX_CPU: "nonsense", MAX_MEMORY: "100Gi"}))

    assert found.max_resources == Resource(vcore=1000)


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        ({QUOTA: '{"memory": "1K"}'}, f"[{QUOTA}].memory '1K': unknown suffix 'K'"),
        ({QUOTA: '{"cpu": NaN}'}, f"[{QUOTA}].cpu 'NaN': expected a number and at most one suffix"),
        ({QUOTA: '{"cpu": true}'}, f"[{QUOTA}].cpu True: expected a text or a number"),
        ({QUOTA: '{"": "1"}'}, f"[{QUOTA}][] '1': expected a resource name of 1 to 256 characters"),
        ({QUOTA: {"cpu": "1"}}, f"[{QUOTA}] {{'cpu': '1'}}: expected a text"),
        ({MAX_CPU: "64 "}, f"[{MAX_CPU}] '64 ': expected a number and at most one suffix"),
        ({MAX_CPU: 64}, f"[{MAX_CPU}] 64: expected a text"),
        ({MAX_MEMORY: "-1Gi"}, f"[{MAX_MEMORY}] '-1Gi': expected a quantity of at least 0"),
        ({PARENT: 1}, f"[{PARENT}] 1: expected a text"),
    ],
)
def test_errors_name_the_annotation(annotations: object, message: str) -> None:
    """An error names the annotation, and what in it."""
    with pytest.raises(ManifestError) as caught:
        read_namespace(namespace(annotations))

    assert str(caught.value) == f"metadata.annotations{message}"


def test_no_namespace() -> None:
    """A manifest of something else, or without a name, is no namespace."""
    for manifest, message in (
        ({"kind": "Pod"}, "kind 'Pod': expected 'Namespace'"),
        (namespace(name=""), "metadata.name None: expected a name"),
        (namespace(name=5), "metadata.name 5: expected a text"),
        ({"metadata": []}, "metadata []: expected a mapping"),
        (namespace("x"), "metadata.annotations 'x': expected a mapping"),
    ):
        with pytest.raises(ManifestError) as caught:
            read_namespace(manifest)
        assert str(caught.value) == message
