"""A real JupyterHub in another process, with its proxy and the servers of its users."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from html import unescape
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode

from support.hosts import MARK, HostProcess, Processes, free_ports
from support.places import EXAMPLES

#: The proxy of the hub: the value of this variable, or the one that is installed.
PROXY: Final = os.environ.get("UGM_HUB_PROXY") or shutil.which("configurable-http-proxy")
_TOKEN: Final = "t" * 32

_CONFIG: Final = """\
c = get_config()
c.JupyterHub.bind_url = "http://127.0.0.1:{public}"
c.JupyterHub.hub_bind_url = "http://127.0.0.1:{private}"
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{proxy}"
c.ConfigurableHTTPProxy.command = {command!r}
c.JupyterHub.cleanup_servers = False
c.JupyterHub.cleanup_proxy = True
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allow_all = True
c.JupyterHub.spawner_class = "simple"
c.JupyterHub.allow_named_servers = True
c.JupyterHub.last_activity_interval = 3600
c.Spawner.cmd = [{python!r}, "-m", "jupyterhub.tests.mocksu"]
c.Spawner.environment = {{{mark_name!r}: {mark!r}}}
c.Spawner.consecutive_failure_limit = 3
c.Spawner.poll_interval = 1
c.Spawner.apply_user_options = lambda spawner, options: None
c.JupyterHub.load_groups = {groups!r}
c.JupyterHub.services = [{{"name": "test", "api_token": {token!r}}}]
c.JupyterHub.load_roles = [
    {{"name": "test", "services": ["test"], "scopes": ["admin:users", "admin:servers", "admin:groups", "read:hub"]}}
]
"""


class Answer(NamedTuple):
    """An answer of the REST interface."""

    status: int
    body: Any

    @property
    def message(self) -> str:
        """The text for the user."""
        return str(self.body.get("message", "")) if isinstance(self.body, dict) else ""


class Page(NamedTuple):
    """A page of the hub."""

    status: int
    text: str


class Hub:
    """A hub with the dummy authenticator, which starts servers as processes of this machine.

    Args:
        owner: starts the processes.
        folder: the folder of all files.
        limits: lines at the end of the configuration.
        groups: the users of each group.
    """

    def __init__(
        self, owner: Processes, folder: Path, limits: str = "", *, groups: Mapping[str, Iterable[str]] = {}
    ) -> None:
        assert PROXY, "install configurable-http-proxy (npm), or set UGM_HUB_PROXY"
        public, self._private, proxy = free_ports(3)
        self.address: Final = f"http://127.0.0.1:{public}"
        self.folder: Final = folder
        self.process: HostProcess
        self._owner: Final = owner
        self._base: Final = _CONFIG.format(
            public=public,
            private=self._private,
            proxy=proxy,
            command=[PROXY],
            python=sys.executable,
            mark_name=MARK,
            mark=owner.mark,
            groups={name: {"users": list(users)} for name, users in groups.items()},
            token=_TOKEN,
        )
        self.limits = limits

    # The process

    def start(self) -> None:
        """Start the hub, also after it was killed, and wait until it answers."""
        config = self.folder / "jupyterhub_config.py"
        config.write_text(self._base + self.limits, "utf-8")
        program = Path(sys.executable).parent / "jupyterhub"
        self.process = self._owner.start([program, "-f", config], self.folder / "hub.log")
        self.process.wait_until(lambda: self.call("GET", "/info").status == 200, "the hub answers")

    def kill(self) -> None:
        """Kill the hub and its proxy. The servers of users continue."""
        self.process.kill()
        self._stop_proxy()

    def stop(self) -> None:
        """Stop the hub and its proxy in order. The servers of users continue."""
        self.process.stop()

    def _stop_proxy(self) -> None:
        with suppress(FileNotFoundError, ProcessLookupError):
            os.kill(int((self.folder / "jupyterhub-proxy.pid").read_text("utf-8")), signal.SIGKILL)

    # REST

    def call(self, method: str, path: str, body: object = None) -> Answer:
        """Call the REST interface with all rights."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._private}/hub/api{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"token {_TOKEN}"},
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - http
                return Answer(answer.status, json.loads(answer.read() or b"null"))
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, json.loads(error.read() or b"null"))

    def add_users(self, names: Iterable[str]) -> None:
        """Add users, who may exist already."""
        self.call("POST", "/users", {"usernames": list(names)})

    def spawn(self, user: str, server: str = "", /, **options: object) -> Answer:
        """Start a server, and return the answer when it is ready, or when it has failed."""
        answer = self.call("POST", _path(user, server), options)
        if answer.status == 202:
            self.process.wait_until(
                lambda: not self._server(user, server).get("pending"), f"{user}/{server} has started"
            )
            return Answer(201, None) if self._server(user, server).get("ready") else Answer(500, None)
        return answer

    def spawn_all(self, servers: Iterable[tuple[str, str]], **options: object) -> list[Answer]:
        """Start servers at once."""
        with ThreadPoolExecutor(64) as threads:
            return list(threads.map(lambda server: self.spawn(*server, **options), servers))

    def stop_server(self, user: str, server: str = "") -> None:
        """Stop a server, and wait until it has ended."""
        answer = self.call("DELETE", _path(user, server))
        assert answer.status in {202, 204}, answer
        self.process.wait_until(lambda: not self._server(user, server), f"{user}/{server} has stopped")

    def servers(self) -> dict[str, int]:
        """Return the processes of all servers that the hub knows to run, by user and server as in ids of the ledger."""
        users = self.call("GET", "/users?include_stopped_servers=0").body
        return {
            f"{user['name']}/{name}": server["state"]["pid"]
            for user in users
            for name, server in user["servers"].items()
            if server["ready"]
        }

    def _server(self, user: str, server: str) -> dict[str, Any]:
        found: dict[str, Any] = self.call("GET", f"/users/{quote(user, safe='')}").body["servers"].get(server, {})
        return found

    def log(self) -> str:
        """Return what the hub has printed."""
        return self.process.output()


def example(owner: Processes, folder: Path) -> Hub:
    """Return the hub of the examples, with the ports and the servers of tests."""
    shutil.copy(EXAMPLES / "jupyterhub" / "quota.yaml", folder)
    text = (EXAMPLES / "jupyterhub" / "jupyterhub_config.py").read_text("utf-8")
    return Hub(owner, folder, re.sub(r"(?m)^c = .*|^c\.JupyterHub\.bind_url = .*", "", text))


class Visitor:
    """A user in a browser without scripts."""

    def __init__(self, hub: Hub, user: str) -> None:
        self._hub: Final = hub
        self._jar: Final = CookieJar()
        self._opener: Final = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self._jar))
        self.open("/hub/login")
        self.open("/hub/login?next=%2Fhub%2Fhome", username=user, password="x")  # noqa: S106 - any

    def open(self, path: str, **form: str) -> Page:
        """Open a page, or send a form to it."""
        token = next((cookie.value for cookie in self._jar if cookie.name == "_xsrf"), "") or ""
        data = urlencode({**form, "_xsrf": token}).encode() if form else None
        try:
            with self._opener.open(self._hub.address + path, data, 60) as answer:
                return _page(answer.status, answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return _page(error.code, error.read())


def _page(status: int, body: bytes) -> Page:
    text = re.sub(r"(?s)<script.*?</script>|<style.*?</style>|<[^>]+>", " ", body.decode())
    return Page(status, " ".join(unescape(text).split()))


def _path(user: str, server: str) -> str:
    user, server = quote(user, safe=""), quote(server, safe="")
    return f"/users/{user}/servers/{server}" if server else f"/users/{user}/server"
