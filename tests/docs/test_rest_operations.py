"""The commands on the page about operations over REST are executed, and get the answers on the page."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from string import Template
from typing import Any, Final

import pytest
from starlette.testclient import TestClient

from support.places import DOCS
from ugm import Partition, parse_config
from ugm.server import create_app

#: The code blocks of the page, each with its language.
BLOCKS: Final = re.findall(
    r"^```(sh|json|yaml)\n(.*?)^```$",
    (DOCS / "howto" / "rest-operations.md").read_text(encoding="utf-8"),
    re.MULTILINE | re.DOTALL,
)
#: The values of the variables in the first block.
VARIABLES: Final = dict(word.split("=", 1) for word in shlex.split(BLOCKS[0][1]))


@pytest.fixture(name="client")
def _client() -> TestClient:
    """Return a client of a server with the configuration of the page."""
    config = next(text for language, text in BLOCKS if language == "yaml")
    app = create_app({"default": Partition(parse_config(config).partition())}, decide_token=VARIABLES["TOKEN"])
    return TestClient(app, base_url="http://localhost:8080")


def execute(client: TestClient, command: str) -> Any:  # noqa: ANN401 - JSON
    """Send the request of a ``curl`` command, and return the answer."""
    program, url, *options = [Template(word).substitute(VARIABLES) for word in shlex.split(command)]
    name, value = options[1].split(": ")
    assert (program, options[0], options[2]) == ("curl", "-H", "--json")

    headers = {name: value, "content-type": "application/json"}
    answer = client.post(url, content=options[3], headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


def expected_answers() -> Iterator[tuple[str, Any]]:
    """Yield each command of the page with its answer."""
    commands: list[str] = []
    for language, text in BLOCKS[1:]:
        if language == "sh":
            commands = text.splitlines()
        elif language == "json":
            yield from zip(commands, map(json.loads, text.splitlines()), strict=True)
            commands = []


def test_commands(client: TestClient) -> None:
    """The commands of the page, in order, get the answers of the page."""
    for command, expected in expected_answers():
        assert execute(client, command) == expected, command


def test_every_command_has_an_answer() -> None:
    """Each command is followed by its answer."""
    commands = [line for language, text in BLOCKS[1:] if language == "sh" for line in text.splitlines()]

    assert [command for command, _ in expected_answers()] == commands
