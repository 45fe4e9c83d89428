"""A validating admission webhook of Kubernetes: pods are admitted only within the quotas of ugm.

The problem: the API server asks before it stores a pod, may still reject the pod afterwards, and never tells the
webhook. The webhook may be called twice, or its answer may be lost, and pods end without it.

The idea: an admitted pod is charged tentatively under its uid. A watcher lists the pods of the cluster every minute and
confirms, corrects and ends the charges; it also watches pods, so that most charges end within a second. A tentative
charge that no pod appears for ends after two minutes, which is longer than a request to the API server can take.

Invariant: the charges of a pod are never less than the requests that the API server has stored for it. So the pods of
the cluster never exceed a limit, and after all pods are gone nothing is charged.

`reviews` is the HTTP server that reads reviews and writes answers, `admission` decides about pods and their owners, and
`watcher` follows the cluster. ``python -m ugm.integrations.kubernetes`` starts everything.
"""

__all__: list[str] = []
