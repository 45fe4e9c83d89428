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
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypedDict, Unpack

import click

from ugm import Partition
from ugm.cli.options import STDIN, chosen_partition, read_config
from ugm.cli.output import exit_with_error
from ugm.cli.signature import JsonFlag, PartitionName, options
from ugm.config import PartitionConfig, SchedulerConfig
from ugm.partition import AbstractPartition, ThresholdWatch
from ugm.server import History, serving

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from ugm.service import Service, ServiceStatus

    #: The functions that return the status of a service, by name of its partition.
    _Services = dict[str, Callable[[], ServiceStatus]]

#: The address and the port of a server.
Host: TypeAlias = Annotated[str, "ADDRESS"]
Port: TypeAlias = Annotated[int, "PORT", click.IntRange(0, 65535)]
_File: TypeAlias = Annotated[Path, click.Path(exists=True, dir_okay=False, path_type=Path)]


class _ServiceOptions(TypedDict):
    """The options of a service; None if they are not given."""

    listen: Annotated[str, "ADDRESSES"] | None
    announce: Annotated[str, "ADDRESS"] | None
    store: Annotated[str, "LOCATION"] | None
    partition: PartitionName | None
    client_token_file: _File | None
    certificate: _File | None
    key: _File | None


def _service(config: PartitionConfig, history: History, chosen: _ServiceOptions) -> Service:
    """Create the service of a partition from the values of the options."""
    from ugm.service import Service, ServiceSettings, tune_interpreter  # noqa: PLC0415 - needs an extra

    tune_interpreter()
    return Service(
        chosen["store"],
        chosen["listen"] or "",
        config=config,
        subscribers=[history],
        security=_security(chosen),
        settings=ServiceSettings(announce=chosen["announce"] or ""),
    )


def _security(chosen: _ServiceOptions) -> Any:  # noqa: ANN401 - of an extra
    from ugm.service import Security  # noqa: PLC0415 - needs an extra

    token, certificate = _token(chosen["client_token_file"], "--client-token-file") or "", chosen["certificate"]
    if certificate is None:
        if chosen["key"] is not None:
            raise click.UsageError("--key needs --certificate")
        return Security(token)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, chosen["key"])
    return Security(token, tls)


@click.command("serve", short_help="Serve partitions: REST interface, web page, metrics.")
@options
@click.argument("config_file", metavar="CONFIG", type=click.Path(allow_dash=True, path_type=Path))
def serve_command(  # noqa: PLR0913 - one for each option
    *,
    config_file: Path,
    host: Host = "127.0.0.1",
    port: Port = 8080,
    writable: bool = False,
    token_file: _File | None = None,
    decide_token_file: _File | None = None,
    host_names: Annotated[tuple[str, ...], "--host-name", "NAME"] = (),
    metrics: bool = False,
    watch: Annotated[float, "SECONDS", click.FloatRange(min=0)] = 2.0,
    lines: Annotated[int, "--history", "EVENTS", click.IntRange(min=1)] = 1000,
    apply: bool = False,
    as_json: JsonFlag = False,
    **service: Unpack[_ServiceOptions],
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

    Args:
        config_file: the configuration.
        host: The address to listen on.
        port: The port; 0 for any free port.
        writable: Let operators replace the configuration, change budgets and carry out preemption plans; needs
            --token-file.
        token_file: A file that contains only the token of operators, of at least 16 characters.
        decide_token_file: A file that contains only the token with which clients may use the partitions over REST.
        host_names: Another host name under which clients may reach the server; may be repeated.
        metrics: Serve metrics for Prometheus at /metrics.
        watch: The interval at which CONFIG is checked for changes, and reloaded; 0 to disable.
        lines: The number of events of each kind that are kept.
        apply: Put CONFIG in force at the start, if it differs from that in the store.
        listen: Let schedulers connect here: unix:/path, tcp://host:port or tls://host:port, separated by commas.
        announce: The address under which schedulers reach this process; needed if --listen names all addresses of the
            host (0.0.0.0).
        store: Keep the partition in this file, or in PostgreSQL (postgresql://...). Other processes with the same
            location stand by; needs --listen.
        partition: The partition of CONFIG for --listen.
        client_token_file: A file that contains only the token of the clients of --listen, who get the role of
            administrators.
        certificate: The certificate for tls addresses, with its chain (PEM).
        key: The private key of the certificate, if it is in another file (PEM).
        as_json: Print the URL of the server as JSON.
        service: the options of a service.
    """
    serving.exit_on_sigterm()
    if writable and token_file is None:
        raise click.UsageError("--writable needs --token-file")
    config, is_file = read_config(str(config_file)), str(config_file) != STDIN
    history = {partition.name: History(lines) for partition in config.partitions}
    _show_logs()
    with _partitions(config, history, service) as (partitions, running):
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
            is_file_shared=service["partition"] is not None,
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
    configs: SchedulerConfig, history: Mapping[str, History], chosen: _ServiceOptions
) -> Iterator[tuple[dict[str, AbstractPartition], Service | None]]:
    """Yield the partitions to serve: that of a service, which runs during the block, or all of them in memory.

    If the service ends by itself meanwhile, the command ends with an error after the block.
    """
    if chosen["listen"] is None:
        for name in (name for name, value in chosen.items() if value is not None):
            # It would have no effect.
            raise click.UsageError(f"--{name.replace('_', '-')} needs --listen")
        yield (
            {config.name: Partition(config, subscribers=[history[config.name]]) for config in configs.partitions},
            None,
        )
        return
    config = chosen_partition(configs, chosen["partition"])
    service = _service(config, history[config.name], chosen)
    # A signal may end the command as soon as the service starts.
    try:
        service.start()
        yield {config.name: service.partition}, service
        if service.failure is not None:
            exit_with_error(f"ugm: the service has ended: {service.failure!r}")
    finally:
        service.stop()


def names_of(host: str) -> tuple[str, ...]:
    """Return the host if it is a name; the server always accepts the address of the connection."""
    return () if ":" in host or not host.strip(".0123456789") else (host,)


class _LogFormatter(logging.Formatter):
    """Leaves the lines of the audit log, which are JSON, as they are."""

    def format(self, record: logging.LogRecord) -> str:
        return record.getMessage() if record.name == "ugm.audit" else super().format(record)


def _show_logs() -> None:
    """Print logs on the standard error: those of ugm, warnings of other libraries, and the audit log as plain JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_LogFormatter("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S%z"))
    logging.basicConfig(handlers=[handler])
    own = logging.getLogger("ugm")
    click.get_current_context().call_on_close(partial(own.setLevel, own.level))
    own.setLevel(logging.INFO)


def _token(file: Path | None, option: str) -> str | None:
    if file is None:
        return None
    token = file.read_text(encoding="utf-8").strip()
    if not token:
        raise click.BadParameter(f"{file} is empty", param_hint=option)
    return token


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
