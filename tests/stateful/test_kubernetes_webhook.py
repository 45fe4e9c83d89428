"""The admission webhook against a simulated API server: never too many pods, and no charge is left behind."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from support.examples import examples
from support.kubernetes_cluster import ApiServer
from ugm import parse_config

#: The limits in cores.
USER, QUEUE = 4, 6
CONFIG: Final = parse_config(
    f"""
partitions:
- placementrules: [{{name: tag, value: namespace}}]
  queues:
  - name: dev
    resources: {{max: {{vcore: {QUEUE}}}}}
    limits:
    - {{users: ["*"], maxresources: {{vcore: {USER}}}}}
"""
).partition()
REPLICA: Final = st.integers(0, 1)
CORES: Final = st.integers(1, 5)
#: What follows after a review, besides the other rules.
THEN: Final = st.sampled_from(["", "", "stored", "compared, stored", "read, stored, compared", "seen, then stored"])
USERS: Final = st.sampled_from(["ana", "ben"])


class WebhookMachine(RuleBasedStateMachine):
    """Two replicas of the webhook, an API server and its clients, in any order of their steps."""

    server: ApiServer

    @initialize()
    def start(self) -> None:
        """Start with an empty cluster."""
        self.server = ApiServer(CONFIG)
        for number in (0, 1):
            self.server.begin_comparison(number)
            self.server.finish_comparison(number)

    def teardown(self) -> None:
        """When tentative charges have ended, exactly the pods that run are charged; when all are gone, nothing is."""
        self.server.settle()
        charged = {one.application_id: one.usage["vcore"] for one in self.server.partition.applications()}
        assert charged == {f"kubernetes/{uid}": 1000 * cpu for uid, cpu in self.server.running().items()}
        self.server.end_pods()
        self.server.settle()
        assert not self.server.partition.applications()
        assert not self.server.partition.allocation_ids()
        self.server.partition.verify()
        self.server.close()

    def _pick(self, data: st.DataObject, *phases: str) -> str:
        found = [uid for uid, manifest in self.server.pods.items() if manifest["status"]["phase"] in phases]
        return data.draw(st.sampled_from(found))

    def _has(self, *phases: str) -> bool:
        return any(manifest["status"]["phase"] in phases for manifest in self.server.pods.values())

    # Clients

    @rule(number=REPLICA, user=USERS, cpu=CORES, is_controlled=st.booleans(), then=THEN)
    def create(self, number: int, user: str, cpu: int, *, is_controlled: bool, then: str) -> None:
        """Create a pod, directly or through a controller; a retry of a client is a new pod."""
        self._begin(number, then)
        before = len(self.server.requests)
        self.server.create(number, user, cpu, is_controlled=is_controlled, dry_run=False)
        self._end(number, then, before)

    def _begin(self, number: int, then: str) -> None:
        if "compared" in then:
            self.server.begin_comparison(number)

    def _end(self, number: int, then: str, before: int) -> None:
        """Do what happens after a review: end a comparison that began before it, store what is allowed, or nothing."""
        if then == "read, stored, compared":
            self.server.read_list(number)
        if then == "compared, stored":
            self.server.finish_comparison(number)
        if then == "seen, then stored":
            while self.server.replicas[number].events:
                self.server.deliver_event(number, batch=False)
            self.compare(number, "all")
        if "stored" in then and len(self.server.requests) > before:
            self.server.store(number, self.server.requests[-1])
        if then == "read, stored, compared":
            self.server.finish_comparison(number)

    @rule(number=REPLICA, user=USERS, cpu=CORES)
    def create_dry(self, number: int, user: str, cpu: int) -> None:
        """Ask with a dry run, which changes nothing."""
        before = self.server.partition.allocations()
        self.server.create(number, user, cpu, is_controlled=False, dry_run=True)
        assert self.server.partition.allocations() == before

    @precondition(lambda self: self._has("Pending", "Running"))
    @rule(data=st.data(), number=REPLICA, cpu=CORES, then=THEN)
    def resize(self, data: st.DataObject, number: int, cpu: int, then: str) -> None:
        """Resize a pod."""
        self._begin(number, then)
        before = len(self.server.requests)
        self.server.resize(number, self._pick(data, "Pending", "Running"), cpu)
        self._end(number, then, before)

    @precondition(lambda self: self._has("Pending", "Running", "Succeeded"))
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        """Delete a pod."""
        self.server.delete(self._pick(data, "Pending", "Running", "Succeeded"))

    # The API server and the nodes

    @precondition(lambda self: self.server.requests)
    @rule(data=st.data(), number=REPLICA)
    def store(self, data: st.DataObject, number: int) -> None:
        """Store an allowed request, also one whose client got a time-out."""
        self.server.store(number, data.draw(st.sampled_from(self.server.requests)))

    @precondition(lambda self: self.server.requests)
    @rule(data=st.data())
    def reject(self, data: st.DataObject) -> None:
        """Reject a request that the webhook has allowed."""
        self.server.reject(data.draw(st.sampled_from(self.server.requests)))

    @precondition(lambda self: self.server.requests)
    @rule(data=st.data(), number=REPLICA)
    def repeat(self, data: st.DataObject, number: int) -> None:
        """Call the webhook twice."""
        self.server.repeat(number, data.draw(st.sampled_from(self.server.requests)))

    @precondition(lambda self: self._has("Pending", "Running"))
    @rule(data=st.data(), is_end=st.booleans())
    def change_phase(self, data: st.DataObject, *, is_end: bool) -> None:
        """Let a pod start or finish."""
        self.server.set_phase(self._pick(data, "Pending", "Running"), "Succeeded" if is_end else "Running")

    # The webhook

    @rule(number=REPLICA, batch=st.booleans())
    def deliver_event(self, number: int, *, batch: bool) -> None:
        """Let an event of the watch arrive."""
        if self.server.replicas[number].events:
            self.server.deliver_event(number, batch=batch)

    @rule(number=REPLICA)
    def reconnect(self, number: int) -> None:
        """Begin a new watch."""
        self.server.reconnect(number)

    @rule(number=REPLICA, step=st.sampled_from(["begin", "read", "finish", "all", "all"]))
    def advance_comparison(self, number: int, step: str) -> None:
        """Let a comparison advance."""
        self.compare(number, step)

    def compare(self, number: int, step: str) -> None:
        """Let a replica begin a comparison, let the API server read its list, let it finish, or all of that."""
        if step in {"begin", "all"}:
            self.server.begin_comparison(number)
        if step in {"read", "all"}:
            self.server.read_list(number)
        if step in {"finish", "all"}:
            self.server.finish_comparison(number)

    @rule(number=REPLICA)
    def restart(self, number: int) -> None:
        """Kill a replica and start it again."""
        self.server.restart(number)

    @rule(seconds=st.sampled_from([1, 20, 59, 59, 121]), number=REPLICA, is_compared=st.booleans())
    def wait(self, seconds: int, number: int, *, is_compared: bool) -> None:
        """Let time pass, usually until a comparison."""
        self.server.pass_time(seconds)
        if is_compared:
            self.compare(number, "all")

    # The limits

    @invariant()
    def limits_hold(self) -> None:
        """The stored pods that have not finished never exceed a limit, and each is charged in full."""
        if not hasattr(self, "server"):
            return
        used: Counter[Any] = Counter()
        for uid, cpu in self.server.running().items():
            application = self.server.partition.application(f"kubernetes/{uid}")
            assert application is not None
            assert application.usage["vcore"] >= 1000 * cpu
            used[application.user.name] += cpu
        assert max(used.values(), default=0) <= USER
        assert used.total() <= QUEUE


TestWebhook = WebhookMachine.TestCase
TestWebhook.settings = settings(max_examples=examples(150), stateful_step_count=30)
