"""``ugm serve``: the partitions of a configuration, with REST and a page."""

from __future__ import annotations

import json
import logging
import socket
import sys
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

from ugm import Partition, UgmError, load_config
from ugm.server import History

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

__all__ = ["missing_extra", "names_of", "serve_command", "url_of"]

#: What the extras ``server`` and ``metrics`` install.
_EXTRAS: Final = {"starlette": "server", "uvicorn": "server", "prometheus_client": "metrics"}


@click.command("serve", short_help="Serve partitions: REST, a page, metrics.")
@click.argument("config_file", metavar="CONFIG", type=click.Path(path_type=Path))
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="The port; 0 for any that is free."
)
@click.option(
    "--writable", is_flag=True, help="Let clients with the token change the configuration; needs --token-file."
)
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file that holds the token and nothing else: at least 16 characters.",
)
@click.option(
    "--host-name",
    "host_names",
    multiple=True,
    metavar="NAME[:PORT]",
    help="A name under which clients may reach the server, besides localhost and the address; repeat it for more.",
)
@click.option("--metrics", is_flag=True, help="Serve metrics for Prometheus at /metrics.")
@click.option(
    "--watch",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    default=2.0,
    show_default=True,
    help="How often to look whether CONFIG has changed, to reload it then; 0 for never.",
)
@click.option(
    "--history",
    "lines",
    type=click.IntRange(min=1),
    metavar="LINES",
    default=1000,
    show_default=True,
    help="How many events of each kind are remembered.",
)
@click.option("--json", "as_json", is_flag=True, help="Print where the server listens as JSON.")
def serve_command(  # noqa: PLR0913 - one for each option
    *,
    config_file: Path,
    host: str,
    port: int,
    writable: bool,
    token_file: Path | None,
    host_names: tuple[str, ...],
    metrics: bool,
    watch: float,
    lines: int,
    as_json: bool,
) -> None:
    """Serve the partitions of CONFIG: REST, a page, and with --metrics metrics.

    Nothing runs in partitions that are served like this; a scheduler mounts the same application with
    its own. On SIGHUP, and when it has changed, CONFIG is reloaded; a configuration with problems is not put in
    force, and /ws/v1/health is degraded while CONFIG has problems. The standard error says how each reload ended.
    Every change, and every request with a wrong token, is written there as a line of JSON.
    """
    if writable and token_file is None:
        raise click.UsageError("--writable needs --token-file")
    try:
        names = (*host_names, *names_of(host))
        serving, app = _application(
            config_file, _token(token_file), names, lines, watch or None, writable=writable, metrics=metrics
        )
        listener = serving.listen(host, port)
    except UgmError as error:
        click.echo(str(error), err=True)
        sys.exit(1)
    except OSError as error:
        click.echo(f"cannot listen at {host} port {port}: {error.strerror or error}", err=True)
        sys.exit(1)
    with listener, _logs_shown():
        told = {"url": url_of(host, listener), "writable": writable, "config": str(config_file)}
        serving.run(
            app, listener, ready=lambda: click.echo(json.dumps(told) if as_json else f"serving at {told['url']}")
        )


def names_of(host: str) -> tuple[str, ...]:
    """Return the name to listen at, if it is one; an address is known from the connection."""
    return () if ":" in host or not host.strip(".0123456789") else (host,)


@contextmanager
def _logs_shown() -> Iterator[None]:
    """Write to standard error: what ugm reports, warnings of any library, and the audit log, which is JSON alone."""
    root, ugm, audit = logging.getLogger(), logging.getLogger("ugm"), logging.getLogger("ugm.audit")
    plain, bare = logging.StreamHandler(sys.stderr), logging.StreamHandler(sys.stderr)
    plain.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S%z"))
    before = ugm.level, audit.propagate
    root.addHandler(plain)
    audit.addHandler(bare)
    ugm.setLevel(logging.INFO)
    # Otherwise the handler of the root would write each line of the audit log a second time.
    audit.propagate = False
    try:
        yield
    finally:
        audit.propagate = before[1]
        ugm.setLevel(before[0])
        audit.removeHandler(bare)
        root.removeHandler(plain)


def _token(file: Path | None) -> str | None:
    if file is None:
        return None
    token = file.read_text(encoding="utf-8").strip()
    if not token:
        raise click.BadParameter(f"{file} is empty", param_hint="--token-file")
    return token


def _application(
    file: Path,
    token: str | None,
    host_names: Sequence[str],
    lines: int,
    watch: float | None,
    *,
    writable: bool,
    metrics: bool,
) -> tuple[ModuleType, Any]:
    """Return the module that runs an application, and the application.

    Raises:
        UgmError: the configuration cannot be used.
    """
    config = load_config(file)
    history = {partition.name: History(lines) for partition in config.partitions}
    partitions = {
        partition.name: Partition(partition, subscribers=[history[partition.name]]) for partition in config.partitions
    }
    try:
        import ugm.server.serving as runner  # noqa: PLC0415 - as above
        from ugm.server import create_app  # noqa: PLC0415 - needs an extra

        exposed = _metrics(partitions, history) if metrics else None
    except ModuleNotFoundError as error:
        missing_extra(error)
    app = create_app(
        partitions,
        history=history,
        token=token,
        read_only=not writable,
        config_path=file,
        watch=watch,
        metrics=exposed,
        allowed_hosts=host_names,
    )
    return runner, app


def _metrics(partitions: Mapping[str, Partition], history: Mapping[str, History]) -> Callable[[], tuple[bytes, str]]:
    from ugm.server.metrics import PartitionCollector, exposition  # noqa: PLC0415 - needs an extra

    return exposition(PartitionCollector(partitions, history=history))


def missing_extra(error: ModuleNotFoundError) -> NoReturn:
    """End the command, saying which extra is not installed."""
    name = (error.name or "").partition(".")[0]
    if name not in _EXTRAS:
        raise error
    click.echo(f"ugm: serving needs {name}; install it with: pip install 'ugm[{_EXTRAS[name]}]'", err=True)
    sys.exit(2)


def url_of(host: str, listener: socket.socket) -> str:
    """Return the address of a server."""
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listener.getsockname()[1]}"
