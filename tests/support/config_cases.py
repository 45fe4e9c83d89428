"""Read tables of configurations and what is wrong with them.

A table is a text of cases. A case is a title, a configuration, a line ``----``, and for each problem three lines: its
place and code, its path, its sentence. Cases are separated by lines ``====``.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from ugm.config import parse_config
from ugm.errors import ConfigError

__all__ = ["EVERYTHING", "problems_of", "table"]

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


_USER: Final = "a letter or _, then letters, digits and characters of :#/_.@-, and possibly a $ at the end"
_GROUP: Final = "a letter or _, then letters, digits and characters of :_.-"
_MORE: Final = "; 'ugm: {names: any}' in the partition allows more"
#: What stands in tables for long parts of sentences.
_SHORT: Final = {
    " NO USER AT ALL": f" is not a valid user name (allowed: {_USER})",
    " NO USER": f" is not a valid user name (allowed: {_USER}{_MORE})",
    " NO GROUP": f" is not a valid group name (allowed: {_GROUP}{_MORE})",
}


def table(text: str) -> list[Any]:
    """Return the cases of a table as parameters: the configuration, and the problems as `problems_of` returns them."""
    for short, long in _SHORT.items():
        text = text.replace(short, long)
    cases = [_case(part.strip("\n")) for part in text.split("\n====\n")]
    return [pytest.param(configuration, expected, id=title) for title, configuration, expected in cases]


def _case(text: str) -> tuple[str, str, list[str]]:
    title, _, rest = text.partition("\n")
    configuration, _, problems = rest.partition("----\n")
    lines = problems.splitlines()
    expected = ["\n".join(lines[at : at + 3]) for at in range(0, len(lines), 3)]
    return title, configuration, expected


def problems_of(text: str) -> list[str]:
    """Return everything that is wrong with a configuration."""
    with pytest.raises(ConfigError) as caught:
        parse_config(text)
    return [f"{p.line}:{p.column} {p.code}\n{p.path}\n{p.message}" for p in caught.value.problems]
