"""The OpenAPI description: a property-based tester finds no difference between it and the server."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import schemathesis
from hypothesis import settings
from schemathesis.config import SchemathesisConfig

from support.lending import lending_models
from support.server_fixtures import CONFIG, DECIDE, PREFIX, STATUS, SUE, TOKEN, YUNIKORN, busy, client, served
from ugm import Partition, Resource, parse_config
from ugm.budgets import Budget, BudgetMode, Budgets
from ugm.configuration import Extensions, ThresholdConfig
from ugm.partition import ThresholdWatch
from ugm.partition.interface.operation_kinds import Role
from ugm.server import History
from ugm.server.app import ROUTES
from ugm.server.interface.schemas import description as description_of
from ugm.store import open_partition

pytestmark = pytest.mark.ci

STREAM_PATH = "/api/v1/partition/{partition}/stream"


def description(server: str) -> dict[str, object]:
    """Return the description of the server."""
    return description_of(server, ROUTES)


#: What a bad configuration is answered with is no contradiction to a description that knows only its outline.
_ACCEPTED = ["2xx", "401", "403", "404", "409", "422"]
_RULES = {
    "positive_data_acceptance": {"expected-statuses": _ACCEPTED},
    # A body with too many elements can be too large to be read.
    "negative_data_rejection": {"expected-statuses": ["400", "401", "403", "404", "405", "409", "413", "415", "422"]},
}
#: These have rules that the description does not have: names of states in any case, the tree of a node, the arguments
#: of each kind of change of a budget, and the running work of a host, which can also be too large.
_WITH_MORE_RULES = {
    "include-path-regex": r"/applications/\{state\}$|/usage_history$"
    r"|/(change_budget|synchronize|admit|batch)$",
    "checks": {"positive_data_acceptance": {"expected-statuses": [*_ACCEPTED, "400", "413"]}},
}
#: The description has the text of the configuration, and the tester reads the YAML in it.
_IN_YAML = {"include-path-regex": r"/api/v1/config$", "checks": {"response_schema_conformance": {"enabled": False}}}
_NAMES = {"partition": "default"}
SERVICES = {"default": lambda: STATUS}

API = schemathesis.openapi.from_asgi(
    "/openapi.json",
    served(services=SERVICES),
    config=SchemathesisConfig.from_dict(
        {"checks": _RULES, "parameters": _NAMES, "operations": [_WITH_MORE_RULES, _IN_YAML]}
    ),
    # A stream does not end.
).exclude(path=STREAM_PATH)


#: The token that each operation needs.
HEADERS = {(route.method, route.full_path): DECIDE if route.role is Role.SCHEDULER else TOKEN for route in ROUTES}


@API.parametrize()
@settings(max_examples=10)
def test_with_whatever_the_description_allows(case: schemathesis.Case[Any]) -> None:
    """Requests that the description allows get the described responses, and all others are refused."""
    case.call_and_validate(headers=HEADERS.get((case.method, case.path), TOKEN))


def test_every_route_is_described_and_every_description_is_a_route() -> None:
    """The description has exactly the methods and paths that the server routes."""
    app, found = served(), set()
    for route in app.routes:
        for path in getattr(route, "routes", ()):
            plain = path.path.replace(":path", "")
            found |= {(method, route.path + plain) for method in path.methods - {"HEAD"}}  # type: ignore[attr-defined] # a mount
    paths: Any = description("")["paths"]

    assert found == {(method.upper(), path) for path, methods in paths.items() for method in methods}
    assert len(found) == len(ROUTES)


def test_every_object_is_described_once() -> None:
    """A response with more than three fields is described in one place, to which others refer."""
    found = Counter[str]()

    def count(part: Any) -> None:  # noqa: ANN401 - JSON
        for inner in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
            count(inner)
        if isinstance(part, dict) and len(part.get("required", ())) > 3:
            found[json.dumps(part, sort_keys=True)] += 1

    count(description("")["components"])
    assert [text for text, number in found.items() if number > 1] == []


BUDGET = Budget("each", user="*", amounts=Resource(memory=10), mode=BudgetMode.ADMIT)


def crossed_watch() -> ThresholdWatch:
    """Return a watch of thresholds that limits and accounts have crossed."""
    extensions = Extensions(thresholds=ThresholdConfig(shares=(50,)))
    half = Budget("half", user="*", amounts=Resource(memory=5), weights={"memory": Fraction(1, 2)})
    partition = Partition(replace(parse_config(CONFIG).partition(), ugm=extensions), models=[Budgets([half])])
    partition.submit("app", SUE, "root.a")
    partition.allocate("x", "app", Resource(memory=7), duration=1)
    watch = ThresholdWatch(partition)
    watch.update()
    return watch


def usage_store(folder: Path) -> Path:
    """Return a store in which sue held something."""
    path = folder / "usage.db"
    with open_partition(path, parse_config(CONFIG).partition()) as partition:
        partition.submit("app", SUE, "root.a")
        partition.allocate("held", "app", Resource(memory=6))
    return path


#: A request for each route that is answered with 200.
REQUESTS: dict[str, tuple[str, Any]] = {
    "/partition/{partition}/utilization/{kind}": ("users", None),
    "/partition/{partition}/usage/user/{name}": ("sue", None),
    "/partition/{partition}/usage/group/{name}": ("dev", None),
    "/partition/{partition}/queue/{queue_path}": ("root.a", None),
    "/partition/{partition}/application/{name}": ("app", None),
    "/partition/{partition}/allocation/{name}": ("held", None),
    "/partition/{partition}/queue/{queue_path}/applications": ("root.a/applications", None),
    "/partition/{partition}/queue/{queue_path}/applications/{state}": ("root.a/applications/active", None),
    "/partition/{partition}/queue/{queue_path}/application/{name}": ("root.a/application/app", None),
    "/partition/{partition}/applications/{state}": ("active", None),
    "/partition/{partition}/node/{name}": ("node-1", None),
    "/partition/{partition}/limits": ("?user=sue&queue=root.a", None),
    "/partition/{partition}/waiting": ("?user=sue&sort=age", None),
    "/partition/{partition}/waiting/users": ("?search=su", None),
    "/partition/{partition}/usage_history": ("?kind=queue&name=root.a", None),
    "/partition/{partition}/tree": ("?tree=elastic", None),
    "/partition/{partition}/tree/node": ("?tree=Teams&node=A", None),
    "/partition/{partition}/tree/borrowers": ("?tree=Teams", None),
    "/partition/{partition}/change_budget": (
        "",
        {"kind": "refill", "budget": "each", "owner": "sue", "amounts": {"memory": 1}, "reason": "more"},
    ),
    "/partition/{partition}/check": ("", {"application_id": "app", "usage": {"memory": 9}}),
    "/partition/{partition}/explain": ("", {"application_id": "app", "usage": {"memory": 9}}),
    "/partition/{partition}/plan": ("", CONFIG),
    "/partition/{partition}/plan_preemption": ("", {"application_id": "app", "usage": {"memory": 1}, "since": 0}),
    "/partition/{partition}/plan_reductions": ("", {}),
    "/partition/{partition}/carry_out": ("", {"victims": ["released"], "reductions": {}}),
    "/partition/{partition}/plan_reclaim": ("", {"application_id": "app", "usage": {"memory": 1}}),
    "/validate-conf": ("", CONFIG.replace("[dev]", "[]")),
    "/config": ("", CONFIG),
}


@pytest.mark.usefixtures("storage")
@pytest.mark.parametrize(
    "route",
    # Operations of schedulers depend on one another; their answers are validated with their other tests.
    [route for route in ROUTES if route.full_path != STREAM_PATH and route.role is not Role.SCHEDULER],
    ids=lambda route: f"{route.method} {route.full_path}",
)
def test_real_answers_are_as_described(route: Any, tmp_path: Path) -> None:  # noqa: ANN401 - a route
    """The response for a partition with usage matches its schema, which allows no other fields."""
    file = tmp_path / "queues.yaml"
    file.write_text(CONFIG)
    end, body = REQUESTS.get(route.path, ("", None))
    path = route.full_path.replace("{partition}", "default").partition("{")[0] + end
    content = None if body is None or route.method == "GET" else body if isinstance(body, str) else json.dumps(body)
    headers = {
        **HEADERS[route.method, route.full_path],
        "content-type": "application/yaml" if isinstance(body, str) else "application/json",
    }
    models = [Budgets([BUDGET])] if "budget" in route.path else lending_models() if "/tree" in route.path else ()
    partition = busy(models=models)
    partition.allocate("p", "app", Resource(memory=1), placeholder=True)
    partition.add_node("node-1", Resource(memory=1000))
    watch = crossed_watch() if route.path.endswith("/thresholds") else ThresholdWatch(partition)
    options: dict[str, Any] = {
        "history": {"default": History()},
        "services": SERVICES,
        "thresholds": {"default": watch},
        "stores": {"default": usage_store(tmp_path)} if route.path.endswith("usage_history") else {},
    }
    answer = client(partition, config_path=file, **options).request(
        route.method, path, content=content, headers=headers
    )
    described: Any = description("")
    operation = described["paths"][route.full_path][route.method.lower()]

    assert answer.status_code == 200, answer.text
    kind = answer.headers["content-type"].partition(";")[0]
    content_schema = operation["responses"]["200"]["content"][kind]
    if kind == "application/json":
        schema = {**content_schema["schema"], "components": described["components"]}
        jsonschema_rs.validate(schema, answer.json())


def test_description_is_served() -> None:
    """The description is served, for the path that the application is mounted at."""
    assert client().get("/openapi.json").json() == description("")
    assert description("/quota")["servers"] == [{"url": "/quota"}]


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("GET", "/api/v1/partition/none/queues", 404, "partition-unknown"),
        ("GET", "/api/v1/nothing", 404, "path-unknown"),
        ("DELETE", "/api/v1/config", 405, "method-unknown"),
        ("GET", f"{PREFIX}/utilization/users?limit=0", 400, "query-invalid"),
        ("GET", f"{PREFIX}/utilization/users?limit=1&limit=2", 400, "query-invalid"),
        ("GET", f"{PREFIX}/utilization/users?most=3", 400, "query-invalid"),
        ("GET", f"{PREFIX}/limits?user=sue", 400, "query-invalid"),
        ("GET", f"{PREFIX}/history?kind=nothing", 400, "query-invalid"),
        ("GET", f"{PREFIX}/usage_history?kind=queue&name=.", 404, "queue-unknown"),
        ("GET", "/api/v1/health?x", 400, "query-invalid"),
        ("GET", f"{PREFIX}/applications?user={'a' * 257}", 400, "query-invalid"),
        ("GET", f"{YUNIKORN}/usage/user/{'a' * 257}", 400, "path-invalid"),
        ("GET", f"{PREFIX}/queue/root.{'a' * 257}", 400, "path-invalid"),
    ],
)
def test_refusals(method: str, path: str, status: int, code: str) -> None:
    """A refusal is JSON with a code and a message."""
    answer = client().request(method, path)

    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer.json()["message" if path.startswith(YUNIKORN) else "detail"]
    assert status != 405 or set(answer.headers["allow"].split(", ")) == {"GET", "HEAD", "PUT"}


def test_a_failing_answer(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """An exception in the server is logged, and the response does not contain its details."""

    def fail(_: object) -> None:
        raise KeyError("inside")

    monkeypatch.setattr(Partition, "nodes", fail)
    answer = client().get(f"{PREFIX}/nodes")

    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert "inside" not in answer.text
    assert "KeyError" in caplog.text
