"""Clients of the REST interface in other languages: one generated from its description, and a session in the shell."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Self
from urllib.request import urlopen

import pytest

from support.hosts import free_ports, processes
from support.places import DOCS, EXAMPLES

pytestmark = pytest.mark.hosts

SCRIPT: Final = EXAMPLES / "rest" / "session.sh"
TOKEN: Final = "a token of about 30 characters"  # noqa: S105 - for a server of the test
#: Endpoints whose bodies are configurations in YAML, which the generator cannot read.
IN_YAML: Final = [
    "GET /api/v1/config",
    "POST /api/v1/partition/{partition}/plan",
    "POST /api/v1/validate-conf",
    "POST /ws/v1/validate-conf",
    "PUT /api/v1/config",
]
GIB: Final = 2**30


@pytest.fixture(name="token_file", scope="module")
def _token_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("server") / "token"
    path.write_text(TOKEN, "utf-8")
    return path


@pytest.fixture(name="url", scope="module")
def _url(token_file: Path) -> Iterator[str]:
    """Return the address of a server, as an operator starts it."""
    [port] = free_ports(1)
    url = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        with urlopen(f"{url}/api/v1/health", timeout=5):  # noqa: S310 - the server of the test
            return True

    options = ("--port", str(port), "--decide-token-file", token_file)
    with processes() as started:
        server = started.start(
            [sys.executable, "-m", "ugm", "serve", SCRIPT.parent / "limits.yaml", *options],
            token_file.with_suffix(".log"),
        )
        server.wait_until(answers, "the server answers")
        yield url


@pytest.fixture(name="warnings", scope="module")
def _warnings(url: str, token_file: Path) -> Iterator[str]:
    """Generate a client that can be imported, and return the warnings of the generator."""
    generator, folder = Path(sys.executable).parent / "openapi-python-client", token_file.parent / "client"
    folder.mkdir()
    result = subprocess.run(  # noqa: S603 - as the author of a program does
        [generator, "generate", "--url", f"{url}/openapi.json", "--meta", "none", "--output-path", folder / "quotas"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    sys.path.insert(0, str(folder))
    yield result.stdout + result.stderr
    sys.path.remove(str(folder))


class Session:
    """Calls of a generated client, with its classes.

    Attributes:
        models: the classes of requests and answers.
    """

    def __init__(self, url: str) -> None:
        self.models: Final[Any] = import_module("quotas.models")
        self._client: Final = import_module("quotas").AuthenticatedClient(base_url=url, token=TOKEN)

    def __enter__(self) -> Self:
        self._client.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._client.__exit__(*error)

    def call(self, operation: str, body: object) -> Any:  # noqa: ANN401 - a generated class
        """Call an operation, and return its answer."""
        return import_module(f"quotas.api.default.{operation}_post").sync("default", client=self._client, body=body)

    def memory(self, text: str) -> Any:  # noqa: ANN401 - as above
        """Return an amount of memory."""
        return self.models.AllocationSpecUsage.from_dict({"memory": text})

    def admit(self, name: str, memory: str, user: str = "eve") -> Any:  # noqa: ANN401 - as above
        """Admit an application with one allocation."""
        spec = self.models.AllocationSpec(allocation_id=name, usage=self.memory(memory))
        return self.call(
            "admit",
            self.models.AdmitBody(
                application_id=name, user=user, groups=["lab"], queue="root.batch", allocations=[spec]
            ),
        )

    def end(self, name: str) -> bool:
        """End an application, and return whether it existed."""
        ended = self.call("end", self.models.EndBody(application_id=name))
        assert isinstance(ended, self.models.Existence)
        return bool(ended.existed)


@pytest.fixture(name="session")
def _session(url: str, warnings: str) -> Iterator[Session]:
    assert "WARNING" in warnings
    with Session(url) as session:
        yield session


def test_generator_reads_the_description(warnings: str) -> None:
    """The generator understands every endpoint but those of configurations."""
    assert sorted(re.findall(r"WARNING parsing (\w+ \S+) within", warnings)) == IN_YAML
    assert warnings.count("WARNING") == len(IN_YAML)


def test_admission(session: Session) -> None:
    """Work is admitted, denied with reasons as values and as a sentence, and admitted after an end."""
    admitted = session.admit("a", "12Gi")
    assert isinstance(admitted, session.models.Admission)
    assert (admitted.admitted, admitted.placement["queue_path"]) == (True, "root.batch")
    assert [(one.allocation_id, one.usage["memory"]) for one in admitted.allocations] == [("a", 12 * GIB)]

    denied = session.admit("b", "8Gi")
    [violation] = denied.decision["violations"]
    assert (denied.admitted, denied.decision["can_wait"]) == (False, True)
    assert [violation[name] for name in ("kind", "name", "used", "shortfall")] == ["user", "eve", 12 * GIB, 4 * GIB]
    assert "in use: 12 GiB of memory" in denied.for_people

    assert (session.end("a"), session.end("a")) == (True, False)
    assert session.admit("b", "8Gi").admitted
    refused = session.admit("b", "8Gi", user="ben")
    assert isinstance(refused, session.models.Error)
    assert (refused.status, refused.code, refused.argument, refused.value) == (409, "id-in-use", "application_id", "b")
    assert session.end("b")


def test_session_in_the_shell(url: str, token_file: Path) -> None:
    """The script has at most 40 lines, and prints what the page shows."""
    page = (DOCS / "howto" / "any-language.md").read_text("utf-8")
    [shown] = re.findall(r"^```console\n\$ sh session\.sh [^\n]*\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    result = subprocess.run(  # noqa: S603 - the example
        ["/bin/sh", SCRIPT, url, token_file], capture_output=True, text=True, timeout=120, check=False
    )

    assert result.returncode == 0, result.stderr
    assert result.stdout == shown
    assert len(SCRIPT.read_text("utf-8").splitlines()) <= 40
