"""A configuration with every field, and the problems of a configuration as texts."""

from __future__ import annotations

from typing import Final

import pytest

from ugm.config import parse_config
from ugm.errors import ConfigError

__all__ = ["EVERYTHING", "problems_of"]

#: Every field of the schema, each away from its default.
EVERYTHING: Final = """
checksum: ABC
partitions:
- name: GPU
  queues:
  - name: ROOT
    parent: on
    maxapplications: 010
    properties: {application.sort.policy: fifo, priority.offset: 5, empty: }
    adminacl: '*'
    submitacl: ana,bob dev
    childtemplate:
      maxapplications: 3
      properties: {x: y}
      resources: {guaranteed: {vcore: 100m}, max: {vcore: 1}}
    queues:
    - name: Prod
      maxapplications: 4
      resources: {guaranteed: {memory: 010}, max: {memory: 2 Gi, nvidia.com/gpu: '8'}}
      limits:
      - limit: yes
        users: [yes, ana]
        groups: [dev, '*']
        maxresources: {memory: 1Gi, vcore: 0}
        maxapplications: 2
  placementrules:
  - name: user
    create: yes
    filter: {type: Deny, users: [^b], groups: [dev, test]}
    parent: {name: fixed, value: root.users, create: off}
  - {name: tag, value: namespace}
  preemption: {enabled: no, quotapreemptionenabled: true}
  nodesortpolicy: {type: binpacking, resourceweights: {vcore: 1.5, memory: 0, gpu: 1e1}}
  usergroupresolver: {type: ldap}
"""


def problems_of(text: str) -> list[str]:
    """Return everything that is wrong with a configuration."""
    with pytest.raises(ConfigError) as caught:
        parse_config(text)
    return [f"{p.line}:{p.column} {p.code}\n{p.path}\n{p.message}" for p in caught.value.problems]
