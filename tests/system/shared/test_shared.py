"""A shared partition: answers that were lost, processes that vanish, limits of the database, and following others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from support.postgres import Server, shared_server
from ugm import AllocationRequest, Decision, RequestError, Resource, UserGroup, Violation, parse_config

pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'ugm[postgres]'")

import psycopg

from ugm.shared import RegistrationLost, SharedPartition, UnavailableError

pytestmark = pytest.mark.ci

__all__ = ["shared_server"]

SUE = UserGroup("sue")

#: Has the server say what it says where a disk is full.
FULL = """CREATE FUNCTION SCHEMA.full() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        RAISE EXCEPTION 'could not extend file' USING ERRCODE = 'disk_full';
    END $$;
    CREATE TRIGGER full_line BEFORE INSERT ON SCHEMA.line EXECUTE FUNCTION SCHEMA.full();
    CREATE TRIGGER full_node BEFORE INSERT ON SCHEMA.node EXECUTE FUNCTION SCHEMA.full()"""

#: Grants an allocation of nothing on the short way.
STEP = """SELECT {schema}.step(%s::bigint, %s::bigint, %s::bigint, %s::bigint, 'app', 0, 5, %s,
    '{{}}', NULL, '{{}}', 1, 1, '{{}}', '{{}}')"""


def config(most: int) -> object:
    """Return a partition with one queue."""
    return parse_config(
        f"partitions: [{{name: default, queues: [{{name: prod, resources: {{max: {{memory: {most}}}}}}}]}}]"
    ).partition()


class Pair:
    """Two processes, as far as the database can tell, and what one of them was told."""

    def __init__(self, server: Server) -> None:
        self.schema, self.conninfo = server.fresh_schema(), server.conninfo
        self.told: list[RegistrationLost] = []
        self.one = SharedPartition(self.conninfo, schema=self.schema, name="one", on_lost=self.told.append)
        self.two = SharedPartition(self.conninfo, schema=self.schema, name="two")
        self.one.configure(config(10))  # type: ignore[arg-type]  # it is one
        self.one.submit("app", SUE, "root.prod")

    def cut(self) -> None:
        """Cut all connections."""
        statement = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
        with psycopg.connect(self.conninfo, autocommit=True) as connection:
            connection.execute(f"{statement} AND backend_type = 'client backend'")


@pytest.fixture
def pair(shared_server: Server) -> Iterator[Pair]:
    """Return two processes that share a partition with 10 bytes of memory."""
    made = Pair(shared_server)
    yield made
    made.one.disconnect()
    made.two.disconnect()


def test_both_see_one_ledger(pair: Pair) -> None:
    """What one process takes, the other cannot."""
    assert pair.one.allocate("x", "app", Resource(memory=7))

    decision = pair.two.allocate("y", "app", Resource(memory=4))

    assert decision.violations == (Violation("queue", "root.prod", "root.prod", "", "memory", 10, 7, 4),)


def test_all_follow_a_configuration(pair: Pair) -> None:
    """A process that knows the old configuration decides by the new one, also on the short way."""
    for name in "abc":
        assert pair.two.allocate(name, "app", Resource(memory=1))
    pair.one.configure(config(4))  # type: ignore[arg-type]  # it is one

    assert pair.two.allocate("d", "app", Resource(memory=1))
    assert not pair.two.allocate("e", "app", Resource(memory=1))


@pytest.mark.parametrize("rounds", [3])
def test_a_lost_connection_is_made_anew(pair: Pair, rounds: int) -> None:
    """Whoever is cut off goes on as if nothing had happened."""
    for number in range(rounds):
        pair.cut()
        assert pair.one.allocate(f"x-{number}", "app", Resource(memory=1))
        pair.cut()
        pair.one.add_node(f"n-{number}", Resource(memory=100))

    pair.one.verify()
    assert len(pair.one.allocations()) == rounds


def test_a_change_is_made_once(pair: Pair) -> None:
    """A change that is sent again under its number, because its answer was lost, is not made again."""
    for name in "ab":
        assert pair.one.allocate(name, "app", Resource(memory=1))
    pair.one.allocate("c", "app", Resource(memory=1))
    engine = pair.one._engine
    engine.number -= 1
    engine.send(engine.database.text(STEP), ("d",))

    assert [one.allocation_id for one in pair.two.allocations()] == ["a", "b", "c"]


def test_what_a_vanished_process_has_is_listed(pair: Pair) -> None:
    """Nothing happens to it by itself; it has an owner and an age."""
    pair.one.allocate("x", "app", Resource(memory=7))

    (vanished,) = pair.two.vanished(timedelta(0))
    (owned,) = pair.two.owned_by(vanished.token)

    assert (vanished.name, vanished.allocations, vanished.fenced_at) == ("one", 1, None)
    assert (owned.allocation.allocation_id, owned.owner) == ("x", pair.one.token)
    assert owned.age >= 0


def test_it_is_released_by_a_call(pair: Pair) -> None:
    """Releasing what a process had leaves room for others."""
    pair.one.allocate("x", "app", Resource(memory=7))

    assert pair.two.release_of(pair.one.token) == ("x",)
    assert pair.two.allocate("y", "app", Resource(memory=10))


def test_it_is_taken_over_by_a_call(pair: Pair) -> None:
    """Whoever takes over what a process had is its owner."""
    pair.one.allocate("x", "app", Resource(memory=7))

    assert pair.two.take_over(pair.one.token) == 1
    assert [one.allocation.allocation_id for one in pair.two.owned_by(pair.two.token)] == ["x"]
    assert pair.two.forget(pair.one.token)


@pytest.mark.parametrize("known", [0, 3])
def test_who_is_presumed_dead_gets_nothing(pair: Pair, known: int) -> None:
    """A process that comes back is denied, and told once; it may still give back."""
    for number in range(known):
        pair.one.allocate(f"k-{number}", "app", Resource(memory=1))
    pair.two.fence(pair.one.token)

    denied = [pair.one.allocate(f"x-{number}", "app", Resource(memory=1)) for number in range(2)]

    assert [one.violations[0].kind for one in denied] == ["registration", "registration"]
    assert pair.told == [RegistrationLost(pair.one.token, "one")]
    assert [pair.one.release(f"k-{number}") for number in range(known)] == [True] * known


@pytest.mark.parametrize("spend", [
    lambda one: one.allocate("x", "app", Resource(memory=1)),
    lambda one: one.allocate("x", "app", Resource(memory=1), priority=7),
    lambda one: one.allocate_all([AllocationRequest("x", "app", Resource(memory=1))]),
    lambda one: one.resize("held", Resource(memory=2)),
    lambda one: one.replace("place", "x", Resource(memory=1)),
])  # fmt: skip
def test_no_way_of_spending_is_left(pair: Pair, spend: Callable[[SharedPartition], Decision]) -> None:
    """Whatever way a fenced process would take something, it is denied, and nothing has changed."""
    pair.one.allocate("place", "app", Resource(memory=1), placeholder=True)
    pair.one.allocate("held", "app", Resource(memory=1))
    before = pair.two.allocations()
    pair.two.fence(pair.one.token)

    assert [one.kind for one in spend(pair.one).violations] == ["registration"]
    assert pair.two.allocations() == before


def test_what_takes_nothing_is_still_done(pair: Pair) -> None:
    """A fenced process may let things shrink, submit, and change the configuration."""
    pair.one.allocate("x", "app", Resource(memory=3))
    pair.two.fence(pair.one.token)

    assert pair.one.resize("x", Resource(memory=1))
    pair.one.submit("new", SUE, "root.prod")
    pair.one.configure(config(2))  # type: ignore[arg-type]  # it is one
    assert pair.two.headroom("new") == Resource(memory=1)


def test_what_is_no_decision_is_refused(pair: Pair) -> None:
    """Asking and adopting have no way to say no but an error."""
    pair.two.fence(pair.one.token)

    with pytest.raises(RequestError) as caught:
        pair.one.adopt("x", "app", Resource(memory=1))

    assert str(caught.value) == "process 'one': it is presumed dead, and has to register again"


def test_who_registers_again_goes_on(pair: Pair) -> None:
    """A new registration is another process."""
    old = pair.one.token
    pair.two.fence(old)
    assert not pair.one.renew()

    assert pair.one.register() != old
    assert pair.one.renew()
    assert pair.one.allocate("x", "app", Resource(memory=1))


def test_amounts_are_bounded(pair: Pair) -> None:
    """An amount that the database cannot keep is refused, and so is a sum."""
    with pytest.raises(RequestError, match="above what a signed 64-bit integer holds"):
        pair.one.allocate("x", "app", Resource(memory=2**63))
    pair.one.adopt("y", "app", Resource(memory=2**63 - 1))
    with pytest.raises(RequestError) as caught:
        pair.one.adopt("z", "app", Resource(memory=1))

    assert str(caught.value) == "usage 'sum': it would exceed what a signed 64-bit integer holds"
    pair.one.verify()


def test_the_short_way_looks_at_amounts(pair: Pair) -> None:
    """A negative amount is refused, however often an application was granted something."""
    for name in "ab":
        assert pair.one.allocate(name, "app", Resource(memory=1))
    with pytest.raises(RequestError, match="negative"):
        pair.one.allocate("c", "app", Resource(memory=-1))


def test_a_gang_is_one_change(pair: Pair) -> None:
    """All of it is granted, or nothing."""
    pair.one.submit("other", UserGroup("bob"), "root.prod")
    gang = [AllocationRequest("x", "app", Resource(memory=6)), AllocationRequest("y", "other", Resource(memory=5))]

    assert not pair.one.allocate_all(gang)
    assert pair.one.allocations() == ()
    assert pair.one.allocate_all([gang[0], gang[1]._replace(usage=Resource(memory=4))])
    pair.two.verify()


def test_a_reader_asks_elsewhere(pair: Pair) -> None:
    """Questions go to the replica."""
    with SharedPartition(pair.conninfo, schema=pair.schema, replica=pair.conninfo) as third:
        pair.one.allocate("x", "app", Resource(memory=7))

        assert third.headroom("app") == Resource(memory=3)
        assert not third.check("app", Resource(memory=4))


def test_nobody_answers() -> None:
    """A database that is not there is an error that says how long it was tried."""
    with pytest.raises(UnavailableError) as caught:
        SharedPartition("host=127.0.0.1 port=1", patience=0)

    assert str(caught.value).startswith("the database did not do it within 0 seconds: ")


def test_the_documentation_runs(shared_server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    """The example does what the page says."""
    page = Path("docs/howto/shared.md").read_text(encoding="utf-8")
    example = page.split("```{code-block} python\n")[1].split("```")[0]

    exec(example, {"CONNINFO": shared_server.conninfo})  # noqa: S102 - our own

    assert capsys.readouterr().out.startswith("denied, waiting can help:\n  queue root.prod: 2Gi memory requested")


def unwilling(pair: Pair) -> SharedPartition:
    """Return a third process, one with little patience."""
    return SharedPartition(pair.conninfo, schema=pair.schema, name="three", patience=0.2)


def test_a_full_database_refuses_growth(pair: Pair) -> None:
    """What finds no room is an error after the patience of the caller, and nothing of it stays; the rest goes on."""
    pair.one.allocate("x", "app", Resource(memory=1))
    with psycopg.connect(pair.conninfo, autocommit=True) as connection, unwilling(pair) as three:
        connection.execute(FULL.replace("SCHEMA", pair.schema))

        with pytest.raises(UnavailableError, match="could not extend file"):
            three.allocate("y", "app", Resource(memory=1))
        with pytest.raises(UnavailableError, match="could not extend file"):
            three.add_node("n", Resource(memory=100))
        assert three.release("x")
        assert three.headroom("app") == Resource(memory=10)
        three.verify()


def only_read(pair: Pair, setting: str) -> None:
    """Change what the database does by default, for all who connect from now on, which all do."""
    with psycopg.connect(pair.conninfo, autocommit=True, options="-c default_transaction_read_only=off") as connection:
        connection.execute(f"ALTER DATABASE postgres {setting}")
    pair.cut()


def test_a_database_that_only_reads_answers(pair: Pair) -> None:
    """It is asked as ever; changes are an error until it takes them again."""
    with unwilling(pair) as three:
        try:
            only_read(pair, "SET default_transaction_read_only = on")
            with pytest.raises(UnavailableError, match="read-only transaction"):
                three.allocate("x", "app", Resource(memory=1))
            with pytest.raises(UnavailableError, match="read-only transaction"):
                three.configure(config(5))  # type: ignore[arg-type]  # it is one
            assert three.headroom("app") == Resource(memory=10)
        finally:
            only_read(pair, "RESET default_transaction_read_only")

        assert three.allocate("x", "app", Resource(memory=1))


def test_who_is_told_cannot_make_a_call_fail(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    """Losing a registration is an event; what its receiver raises is logged."""

    def fail(lost: RegistrationLost) -> None:
        raise ValueError(lost.name)

    with SharedPartition(pair.conninfo, schema=pair.schema, name="three", on_lost=fail) as three:
        pair.two.fence(three.token)

        assert three.allocate("x", "app", Resource(memory=1)).violations[0].kind == "registration"
    assert "who was told that the registration of 'three' is lost failed" in caplog.text


def test_who_is_forgotten_learns_it(pair: Pair) -> None:
    """A process that others have forgotten, because it had nothing, gets nothing more until it registers again."""
    assert pair.two.forget(pair.one.token)

    assert not pair.one.allocate("x", "app", Resource(memory=1))
    assert pair.told == [RegistrationLost(pair.one.token, "one")]


def test_who_is_forgotten_cannot_give_back_what_others_have(pair: Pair) -> None:
    """What was taken over from a process that was then forgotten is released by whom it is of."""
    for name in "xyz":
        assert pair.one.allocate(name, "app", Resource(memory=1))
    pair.two.take_over(pair.one.token)
    assert pair.two.forget(pair.one.token)

    with pytest.raises(RequestError, match="has to register again"):
        pair.one.release("z")
    pair.one.register()
    assert pair.one.release("y")


def test_an_answer_lost_before_a_new_configuration(pair: Pair) -> None:
    """A change that was made is answered as made, even if it was compiled from what is no longer in force."""
    for name in "abc":
        pair.one.allocate(name, "app", Resource(memory=1))
    engine = pair.one._engine
    pair.two.configure(config(3))  # type: ignore[arg-type]  # it is one
    engine.number -= 1

    engine.send(engine.database.text(STEP), ("c",))

    pair.two.verify()
    assert [one.allocation_id for one in pair.two.allocations()] == ["a", "b", "c"]


def test_all_agree_on_group_limits(pair: Pair) -> None:
    """A process that would enforce group limits otherwise is refused."""
    with pytest.raises(RequestError) as caught:
        SharedPartition(pair.conninfo, schema=pair.schema, group_limits="unless-user-limited")

    assert str(caught.value) == "group_limits 'unless-user-limited': the others have decided otherwise"
