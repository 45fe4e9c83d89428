"""The rules of documents, partitions and queues: each with its place, its code and its sentence."""

from __future__ import annotations

import pytest

from support.config_cases import problems_of, table
from ugm.config import parse_config

DOCUMENTS = table("""
an empty document has no partition
----
1:1 partitions-missing
partitions
there is no partition (required: at least one)
====
a document of comments has no partition
# nothing
----
1:1 partitions-missing
partitions
there is no partition (required: at least one)
====
no value for the partitions
partitions:
----
1:12 partitions-missing
partitions
there is no partition (required: at least one)
====
an empty list of partitions
partitions: []
----
1:1 partitions-missing
partitions
there is no partition (required: at least one)
====
two partitions of one name, in different case
partitions:
- {name: GPU, queues: []}
- {name: gpu, queues: []}
----
3:10 partition-name-duplicate
partitions[1].name
the partition 'gpu' already exists (partitions[0])
====
a partition without a name is called default
partitions:
- queues: []
- {name: Default, queues: []}
----
3:10 partition-name-duplicate
partitions[1].name
the partition 'default' already exists (partitions[0])
====
a partition without queues
partitions:
- name: gpu
----
2:3 queues-missing
partitions[0].queues
the partition has no list of queues (allowed: an empty list)
====
no value for the queues
partitions:
- queues:
----
2:10 queues-missing
partitions[0].queues
the partition has no list of queues (allowed: an empty list)
====
a maximum of the root queue, even an empty one
partitions:
- queues:
  - name: root
    resources:
      max: {}
----
5:7 root-has-resources
partitions[0].queues[0].resources.max
the root queue must not set resources: its maximum is the sum of the nodes
====
a guarantee of the root queue
partitions:
- queues:
  - name: ROOT
    resources:
      guaranteed: {memory: 1}
----
5:7 root-has-resources
partitions[0].queues[0].resources.guaranteed
the root queue must not set resources: its maximum is the sum of the nodes
====
limits of the partition that differ from those of the root queue
partitions:
- limits:
  - {users: [ana], maxapplications: 2}
  queues:
  - name: root
    limits:
    - {users: [ana], maxapplications: 3}
----
2:3 partition-limits-differ
partitions[0].limits
the limits of the partition and those of its root queue are both given and differ
====
the limits of the partition are checked as those of the root queue
partitions:
- limits:
  - {users: ['*'], maxapplications: 2}
  - {users: [bob], maxapplications: 0}
  queues:
  - name: root
    queues:
    - name: a
      limits: [{users: [ana], maxapplications: 3}]
----
4:5 limit-sets-nothing
partitions[0].limits[1]
the limit sets no maximum (required: maxresources, maxapplications or ugm)
4:14 limit-user-after-wildcard
partitions[0].limits[1].users[0]
user 'bob' follows the user wildcard (limits[0]) and has no effect
9:48 limit-user-applications-above-wildcard
partitions[0].queues[0].queues[0].limits[0].maxapplications
user 'ana' may run 3 applications here, but only 2 in the wildcard of root (limits[0])
====
an unknown node sort policy and a negative weight
partitions:
- queues: []
  nodesortpolicy: {type: Fair, resourceweights: {vcore: -0.5, memory: 2}}
----
3:26 node-sort-policy-unknown
partitions[0].nodesortpolicy.type
unknown node sort policy 'Fair' (allowed: 'fair', 'binpacking')
3:57 node-sort-weight-negative
partitions[0].nodesortpolicy.resourceweights.vcore
the weight of 'vcore' is -0.5 (allowed: 0 or more)
""")

QUEUES = table("""
a blank in the name of a queue
partitions:
- queues:
  - name: a b
----
3:11 queue-name-invalid
partitions[0].queues[0].name
'a b' is not a valid queue name (allowed: 1 to 64 letters, digits and characters of _:#/@-)
====
a dot in the name of a queue
partitions:
- queues:
  - name: a.b
----
3:11 queue-name-invalid
partitions[0].queues[0].name
'a.b' is not a valid queue name (allowed: 1 to 64 letters, digits and characters of _:#/@-)
====
a queue without a name
partitions:
- queues:
  - maxapplications: 1
----
3:5 queue-name-invalid
partitions[0].queues[0].name
'' is not a valid queue name (allowed: 1 to 64 letters, digits and characters of _:#/@-)
====
a queue called root below the root
partitions:
- queues:
  - name: root
    queues: [{name: Root}]
----
4:21 queue-name-reserved
partitions[0].queues[0].queues[0].name
a queue below root has the name 'root', which only the root queue may have
====
a queue called root next to others
partitions:
- queues:
  - name: root
  - name: a
----
3:11 queue-name-reserved
partitions[0].queues[0].name
a queue below root has the name 'root', which only the root queue may have
====
two queues of one name, in different case
partitions:
- queues:
  - name: Prod
  - name: test
  - name: prod
----
5:11 queue-name-duplicate
partitions[0].queues[2].name
the queue root.prod already exists (queues[0])
====
blanks between the users of an access control list
partitions:
- queues:
  - name: a
    submitacl: ana, bob data
    adminacl: '*'
----
4:16 acl-too-many-parts
partitions[0].queues[0].submitacl
'ana, bob data': expected users, one space, and groups; names are separated by commas without spaces
====
a maximum above that of the grandparent
partitions:
- queues:
  - name: p
    resources: {max: {vcore: 2, memory: 1Gi}}
    queues:
    - name: q
      queues:
      - name: r
        resources: {max: {vcore: 2500m, memory: 1Gi, gpu: 7}}
----
9:34 queue-max-above-parent
partitions[0].queues[0].queues[0].queues[0].resources.max.vcore
root.p.q.r may use up to vcore 2500m, but root.p only 2
====
a maximum above a maximum of nothing
partitions:
- queues:
  - name: p
    resources: {max: {memory: 0}}
    queues: [{name: a, resources: {max: {memory: 1}}}]
----
5:50 queue-max-above-parent
partitions[0].queues[0].queues[0].resources.max.memory
root.p.a may use up to memory 1, but root.p only 0
====
a guarantee above the maximum
partitions:
- queues:
  - name: p
    resources: {guaranteed: {memory: 2Gi, vcore: 1}, max: {memory: 1Gi}}
----
4:38 queue-guaranteed-above-max
partitions[0].queues[0].resources.guaranteed.memory
root.p is guaranteed memory 2Gi, but may use only 1Gi
====
guarantees that add up to more than the guarantee above
partitions:
- queues:
  - name: p
    resources: {guaranteed: {memory: 3}}
    queues:
    - {name: a, resources: {guaranteed: {memory: 2}}}
    - name: b
      queues: [{name: c, resources: {guaranteed: {memory: 2}}}]
----
4:38 queue-guaranteed-sum-above-guaranteed
partitions[0].queues[0].resources.guaranteed.memory
the queues below root.p are guaranteed memory 4 together, but root.p only 3
====
guarantees that add up to more than the maximum above, past 64 bits
partitions:
- queues:
  - name: p
    resources: {max: {memory: 9223372036854775807}}
    queues:
    - {name: a, resources: {guaranteed: {memory: 9223372036854775807}}}
    - {name: b, resources: {guaranteed: {memory: 9223372036854775807}}}
----
4:31 queue-guaranteed-sum-above-max
partitions[0].queues[0].resources.max.memory
the queues below root.p are guaranteed memory 18446744073709551614 together, but root.p only 9223372036854775807
====
more applications than the queue above
partitions:
- queues:
  - name: root
    maxapplications: 5
    queues: [{name: a, maxapplications: 6}]
----
5:41 queue-applications-above-parent
partitions[0].queues[0].queues[0].maxapplications
root.a may run 6 applications, but root only 5
====
any number of applications below a queue that counts them
partitions:
- queues:
  - name: root
    maxapplications: 5
    queues:
    - name: a
----
6:7 queue-applications-missing
partitions[0].queues[0].queues[0]
root.a has no maximum of applications, but root has one of 5
====
a child template that no queue could follow
partitions:
- queues:
  - name: p
    maxapplications: 3
    resources: {max: {memory: 5}}
    childtemplate:
      maxapplications: 4
      resources:
        guaranteed: {vcore: 2, memory: 6}
        max: {vcore: 1, memory: 7}
----
7:24 template-above-queue
partitions[0].queues[0].childtemplate.maxapplications
the child template of root.p allows 4 applications, but root.p may run only 3
9:29 template-guaranteed-above-max
partitions[0].queues[0].childtemplate.resources.guaranteed.vcore
the child template of root.p is guaranteed vcore 2, but may use only 1
9:40 template-above-queue
partitions[0].queues[0].childtemplate.resources.guaranteed.memory
the child template of root.p guarantees memory 6, but root.p only 5
10:33 template-above-queue
partitions[0].queues[0].childtemplate.resources.max.memory
the child template of root.p allows memory 7, but root.p only 5
""")


@pytest.mark.parametrize(("text", "problems"), DOCUMENTS)
def test_document_and_partition_rules(text: str, problems: list[str]) -> None:
    """What breaks a rule of documents and partitions is reported at its place."""
    assert problems_of(text) == problems


def test_length_of_queue_names() -> None:
    """A queue name has at most 64 characters."""
    parse_config(f"partitions: [{{queues: [{{name: {'q' * 64}}}]}}]")
    (problem,) = problems_of(f"partitions: [{{queues: [{{name: {'q' * 65}}}]}}]")

    assert "queue-name-invalid" in problem


@pytest.mark.parametrize(("text", "problems"), QUEUES)
def test_queue_rules(text: str, problems: list[str]) -> None:
    """What breaks a rule of queues is reported at its place."""
    assert problems_of(text) == problems


def test_guarantee_of_a_queue_is_what_it_claims() -> None:
    """A queue with a guarantee claims that of the queue above, whatever else the queues below it are guaranteed."""
    parse_config("""
        partitions:
        - queues:
          - name: p
            resources: {guaranteed: {memory: 2, vcore: 1}}
            queues:
            - name: q
              resources: {guaranteed: {memory: 2}}
              queues: [{name: r, resources: {guaranteed: {vcore: 8}}}]
    """)


@pytest.mark.parametrize("acl", ["'*'", "ana", "'ana,bob dev,test'", "' dev'", "'  '"])
def test_access_control_lists_that_keep_the_rules(acl: str) -> None:
    """An access control list is empty, the wildcard, users, groups, or users and groups."""
    parse_config(f"partitions: [{{queues: [{{name: a, submitacl: {acl}, adminacl: {acl}}}]}}]")
