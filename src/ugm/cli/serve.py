"""``ugm serve``: a server for the partitions of a configuration."""

from __future__ import annotations

import json
import logging
import socket
import sys
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final, NoReturn

import click

from ugm import Partition, UgmError, load_config
from ugm.cli.output import exit_with_error
from ugm.partition import AbstractPartition
from ugm.server import History

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from starlette.applications import Starlette

__all__ = ["missing_extra", "names_of", "serve_command", "url_of"]

#: The extra that installs each optional package.
_EXTRAS: Final = {"starlette": "server", "uvicorn": "server", "prometheus_client": "metrics"}


@click.command("serve", short_help="Serve partitions: REST interface, web page, metrics.")
@click.argument("config_file", metavar="CONFIG", type=click.Path(path_type=Path))
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="The port; 0 for any free port."
)
@click.option(
    "--writable", is_flag=True, help="Let clients with the token change the configuration; needs --token-file."
)
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A file that contains only the token, of at least 16 characters.",
)
@click.option(
    "--host-name",
    "host_names",
    multiple=True,
    metavar="NAME[:PORT]",
    help="Another host name under which clients may reach the server; may be repeated.",
)
@click.option("--metrics", is_flag=True, help="Serve metrics for Prometheus at /metrics.")
@click.option(
    "--watch",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    default=2.0,
    show_default=True,
    help="The interval at which CONFIG is checked for changes, and reloaded; 0 to disable.",
)
@click.option(
    "--history",
    "lines",
    type=click.IntRange(min=1),
    metavar="EVENTS",
    default=1000,
    show_default=True,
    help="The number of events of each kind that are kept.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the URL of the server as JSON.")
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
    """Serve the partitions of CONFIG with a REST interface, a web page and, with --metrics, metrics.

    The partitions are empty: no scheduler uses them. A scheduler mounts the same application with its own partitions.
    CONFIG is reloaded on SIGHUP and when it changes. A configuration with problems is refused; as long as CONFIG has
    problems, /ws/v1/health reports the status "degraded". The result of each reload is printed on the standard error.
    Every change, and every request with a wrong token, is printed there as a line of JSON.
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
        exit_with_error(error)
    except OSError as error:
        exit_with_error(f"cannot listen on {host} port {port}: {error.strerror or error}")
    with listener, _logs_shown():
        details = {"url": url_of(host, listener), "writable": writable, "config": str(config_file)}
        serving.run(
            app, listener, ready=lambda: click.echo(json.dumps(details) if as_json else f"serving at {details['url']}")
        )


def names_of(host: str) -> tuple[str, ...]:
    """Return the host if it is a name; the server always accepts the address of the connection."""
    return () if ":" in host or not host.strip(".0123456789") else (host,)


@contextmanager
def _logs_shown() -> Iterator[None]:
    """Print logs on the standard error: those of ugm, warnings of other libraries, and the audit log as plain JSON."""
    root, ugm, audit = logging.getLogger(), logging.getLogger("ugm"), logging.getLogger("ugm.audit")
    plain, bare = logging.StreamHandler(sys.stderr), logging.StreamHandler(sys.stderr)
    plain.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S%z"))
    before = ugm.level, audit.propagate
    root.addHandler(plain)
    audit.addHandler(bare)
    ugm.setLevel(logging.INFO)
    # Otherwise the handler of the root logger would print each line of the audit log a second time.
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
) -> tuple[ModuleType, Starlette]:
    """Return the module that runs the application, and the application.

    Raises:
        UgmError: the configuration has problems.
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


def _metrics(
    partitions: Mapping[str, AbstractPartition], history: Mapping[str, History]
) -> Callable[[], tuple[bytes, str]]:
    from ugm.server.metrics import PartitionCollector, exposition  # noqa: PLC0415 - needs an extra

    return exposition(PartitionCollector(partitions, history=history))


def missing_extra(error: ModuleNotFoundError) -> NoReturn:
    """End the command with a message that names the missing extra."""
    name = (error.name or "").partition(".")[0]
    if name not in _EXTRAS:
        raise error
    exit_with_error(f"ugm: serving needs {name}; install it with: pip install 'ugm[{_EXTRAS[name]}]'", status=2)


def url_of(host: str, listener: socket.socket) -> str:
    """Return the URL of a server."""
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listener.getsockname()[1]}"
