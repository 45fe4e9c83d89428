"""Kubernetes manifests in ugm's terms: pods, nodes, namespaces with their quotas, and elastic quotas.

A manifest is a plain mapping, as a YAML or JSON parser returns it. This package does not connect to a cluster.
"""

from ugm.kubernetes.elastic_quotas import read_elastic_quota, write_elastic_quota
from ugm.kubernetes.manifests import ManifestError, parse_quantity
from ugm.kubernetes.objects import NamespaceTerms, PodTerms, node_offers, pod_usage, read_namespace, read_pod

__all__ = [
    "ManifestError",
    "NamespaceTerms",
    "PodTerms",
    "node_offers",
    "parse_quantity",
    "pod_usage",
    "read_elastic_quota",
    "read_namespace",
    "read_pod",
    "write_elastic_quota",
]
