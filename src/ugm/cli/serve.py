"""``ugm serve``: a server for the partitions of a configuration.

Options of a service let other processes use one of the partitions.
"""

from __future__ import annotations

import json
import logging
import socket
import ssl
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from ugm import Partition
from ugm._json_values import JsonObject
from ugm.cli.options import STDIN, read_config
from ugm.cli.output import exit_with_error
from ugm.config import PartitionConfig
from ugm.errors import UgmError
from ugm.partition import AbstractPartition, ThresholdWatch
from ugm.server import History, serving

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from ugm.service import Service, ServiceStatus

    #: The functions that return the status of a service, by name of its partition.
    _Services = dict[str, Callable[[], ServiceStatus]]

__all__ = [
    "HOST",
    "JSON",
    "PORT",
    "extras_required",
    "listening",
    "names_of",
    "run_server",
    "serve_command",
]

#: The extra that installs each optional package.
_EXTRAS: Final = {
    "starlette": "server",
    "uvicorn": "server",
    "prometheus_client": "metrics",
    "msgspec": "service",
    "psycopg": "postgres",
}


_F = TypeVar("_F", bound=Callable[..., Any])

#: Options that ``serve`` and ``demo`` share.
HOST: Final = click.option("--host", metavar="ADDRESS", default="127.0.0.1", help="The address to listen on.")
PORT: Final = click.option(
    "--port", type=click.IntRange(0, 65535), metavar="PORT", default=8080, help="The port; 0 for any free port."
)
JSON: Final = click.option("--json", "as_json", is_flag=True, help="Print the URL of the server as JSON.")


def _file_option(name: str, text: str) -> Callable[[_F], _F]:
    return click.option(name, type=click.Path(exists=True, dir_okay=False, path_type=Path), help=text)


def _require_no_service_options(options: JsonObject) -> None:
    """Check that no option of a service was used without ``--listen``.

    Raises:
        click.UsageError: there is one, which would have no effect.
    """
    for parameter in click.get_current_context().command.params:
        if parameter.name != "listen" and options.get(parameter.name or "") is not None:
            raise click.UsageError(f"{parameter.opts[0]} needs --listen")


def _service(config: PartitionConfig, history: History, options: JsonObject) -> Service:
    """Create the service of a partition from the values of the options."""
    from ugm.service import Service, ServiceSettings, tune_interpreter  # noqa: PLC0415 - needs an extra

    tune_interpreter()
    with _errors_reported():
        return Service(
            options["store"],
            options["listen"],
            config=config,
            subscribers=[history],
            security=_security(options),
            settings=ServiceSettings(announce=options["announce"] or ""),
        )


@contextmanager
def _errors_reported() -> Iterator[None]:
    try:
        yield
    except (UgmError, OSError) as error:
        exit_with_error(f"ugm: {error}")


def _chosen(partitions: tuple[PartitionConfig, ...], name: str | None) -> PartitionConfig:
    found = [partition for partition in partitions if name in (None, partition.name)]
    if len(found) == 1:
        return found[0]
    names = ", ".join(partition.name for partition in partitions)
    if name is not None:
        raise click.UsageError(f"CONFIG has no partition {name!r}; it has {names}")
    raise click.UsageError(f"--listen serves one partition: choose it with --partition (one of {names})")


def _security(options: JsonObject) -> Any:  # noqa: ANN401 - of an extra
    from ugm.service import Security  # noqa: PLC0415 - needs an extra

    token, certificate = _token(options["client_token_file"], "--client-token-file") or "", options["certificate"]
    if certificate is None:
        if options["key"] is not None:
            raise click.UsageError("--key needs --certificate")
        return Security(token)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, options["key"])
    return Security(token, tls)


@click.command("serve", short_help="Serve partitions: REST interface, web page, metrics.")
@click.argument("config_file", metavar="CONFIG", type=click.Path(allow_dash=True, path_type=Path))
@HOST
@PORT
@click.option(
    "--writable",
    is_flag=True,
    help="Let operators replace the configuration, change budgets and carry out preemption plans; needs --token-file.",
)
@_file_option("--token-file", "A file that contains only the token of operators, of at least 16 characters.")
@_file_option(
    "--decide-token-file", "A file that contains only the token with which clients may use the partitions over REST."
)
@click.option(
    "--host-name",
    "host_names",
    multiple=True,
    metavar="NAME",
    help="Another host name under which clients may reach the server; may be repeated.",
)
@click.option("--metrics", is_flag=True, help="Serve metrics for Prometheus at /metrics.")
@click.option(
    "--watch",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    default=2.0,
    help="The interval at which CONFIG is checked for changes, and reloaded; 0 to disable.",
)
@click.option(
    "--history",
    "lines",
    type=click.IntRange(min=1),
    metavar="EVENTS",
    default=1000,
    help="The number of events of each kind that are kept.",
)
@click.option(
    "--apply",
    is_flag=True,
    help="Put CONFIG in force at the start, if it differs from that in the store.",
)
@click.option(
    "--listen",
    metavar="ADDRESSES",
    help="Let schedulers connect here: unix:/path, tcp://host:port or tls://host:port, separated by commas.",
)
@click.option(
    "--announce",
    metavar="ADDRESS",
    help="The address under which schedulers reach this process; needed if --listen names all addresses of the "
    "host (0.0.0.0).",
)
@click.option(
    "--store",
    metavar="LOCATION",
    help="Keep the partition in this file, or in PostgreSQL (postgresql://...). Other processes with the "
    "same location stand by; needs --listen.",
)
@click.option("--partition", "partition_name", metavar="NAME", help="The partition of CONFIG for --listen.")
@_file_option(
    "--client-token-file",
    "A file that contains only the token of the clients of --listen, who get the role of administrators.",
)
@_file_option("--certificate", "The certificate for tls addresses, with its chain (PEM).")
@_file_option("--key", "The private key of the certificate, if it is in another file (PEM).")
@JSON
def serve_command(  # noqa: PLR0913 - one for each option
    *,
    config_file: Path,
    host: str,
    port: int,
    writable: bool,
    token_file: Path | None,
    decide_token_file: Path | None,
    host_names: tuple[str, ...],
    metrics: bool,
    watch: float,
    lines: int,
    as_json: bool,
    apply: bool,
    **service: Any,  # noqa: ANN401 - the options of a service
) -> None:
    """Serve the partitions of CONFIG with a REST interface, a web page and, with --metrics, metrics.

    With --listen, schedulers in other processes use one partition of CONFIG, to which they connect with ugm.connect.
    With --store, the changes of this partition are durable. A configuration in the store stays in force; if CONFIG
    differs, the differences are logged, and the health is "degraded". --apply puts CONFIG in force at the start.
    Without --listen, only clients over REST can use the partitions; see --decide-token-file.
    CONFIG is reloaded on SIGHUP and when it changes; with - it is read once, from the standard input. A configuration
    with problems is refused; while CONFIG has problems, /api/v1/health reports the status "degraded". The result
    of each reload is printed on the standard error. Every change, and every request with a wrong token, is printed
    there as a line of JSON.
    """
    serving.exit_on_sigterm()
    if writable and token_file is None:
        raise click.UsageError("--writable needs --token-file")
    config, is_file = read_config(str(config_file)), str(config_file) != STDIN
    history = {partition.name: History(lines) for partition in config.partitions}
    with (
        extras_required(),
        _logs_shown(),
        _partitions(config.partitions, history, service) as (partitions, running),
    ):
        from ugm.server import create_app  # noqa: PLC0415 - needs an extra

        services: _Services = {} if running is None else dict.fromkeys(partitions, running.status)
        thresholds = {name: ThresholdWatch(partition) for name, partition in partitions.items()}
        exposed = None
        if metrics:
            from ugm.server.metrics.collector import PartitionCollector, exposition  # noqa: PLC0415 - needs an extra

            collector = PartitionCollector(partitions, history=history, services=services, thresholds=thresholds)
            exposed = exposition(collector)
        app = create_app(
            partitions,
            thresholds=thresholds,
            history={name: history[name] for name in partitions},
            services=services,
            stores={} if service["store"] is None else dict.fromkeys(services, service["store"]),
            token=_token(token_file, "--token-file"),
            decide_token=_token(decide_token_file, "--decide-token-file"),
            read_only=not writable,
            config_path=config_file if is_file else None,
            is_file_shared=service["partition_name"] is not None,
            watch=(watch or None) if is_file else None,
            metrics=exposed,
            allowed_hosts=(*host_names, *names_of(host)),
        )
        if apply:
            app.state.configurations.apply_file()

        def has_failed() -> bool:
            return running is not None and running.failure is not None

        with listening(host, port) as listener:
            details = {"writable": writable, "config": str(config_file), "listen": service["listen"]}
            run_server(app, host, listener, details, as_json=as_json, has_failed=has_failed)


@contextmanager
def _partitions(
    configs: tuple[PartitionConfig, ...], history: Mapping[str, History], options: JsonObject
) -> Iterator[tuple[dict[str, AbstractPartition], Service | None]]:
    """Yield the partitions to serve: that of a service, which runs during the block, or all of them in memory.

    If the service ends by itself meanwhile, the command ends with an error after the block.
    """
    if options["listen"] is None:
        _require_no_service_options(options)
        yield {config.name: Partition(config, subscribers=[history[config.name]]) for config in configs}, None
        return
    config = _chosen(configs, options["partition_name"])
    service = _service(config, history[config.name], options)
    # A signal may end the command as soon as the service starts.
    try:
        with _errors_reported():
            service.start()
        yield {config.name: service.partition}, service
        if service.failure is not None:
            exit_with_error(f"ugm: the service has ended: {service.failure!r}")
    finally:
        service.stop()


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


def _token(file: Path | None, option: str) -> str | None:
    if file is None:
        return None
    token = file.read_text(encoding="utf-8").strip()
    if not token:
        raise click.BadParameter(f"{file} is empty", param_hint=option)
    return token


@contextmanager
def extras_required() -> Iterator[None]:
    """End the command with a message that names the missing extra, if a package is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name not in _EXTRAS:
            raise
        exit_with_error(f"ugm: serving needs {name}: install the extra '{_EXTRAS[name]}'", status=2)


def listening(host: str, port: int) -> socket.socket:
    """Return a socket for clients, or end the command with a message."""
    try:
        return serving.listen(host, port)
    except OSError as error:
        exit_with_error(f"cannot listen on {host} port {port}: {error.strerror or error}")


def run_server(
    app: Starlette,
    host: str,
    listener: socket.socket,
    details: Mapping[str, object],
    *,
    as_json: bool,
    has_failed: Callable[[], bool] = lambda: False,
) -> None:
    """Serve an application, and print its URL when clients can connect; in JSON, with *details*.

    The server stops on a signal, and when *has_failed* returns true.
    """
    url = f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"
    text = json.dumps({"url": url, **details}) if as_json else f"serving at {url}"
    serving.run(app, listener, ready=lambda: click.echo(text), has_failed=has_failed)
