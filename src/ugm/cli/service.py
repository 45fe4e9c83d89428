"""The options of ``ugm serve`` that let other processes use the partition."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ugm._json_values import JsonObject
from ugm.cli.output import exit_with_error
from ugm.config import PartitionConfig
from ugm.errors import UgmError
from ugm.events import Subscriber

if TYPE_CHECKING:
    from ugm.service import Service

__all__ = ["require_no_service_options", "running_service", "service_options"]

_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)

_OPTIONS: Final = (
    click.option(
        "--listen",
        metavar="ADDRESSES",
        help="Let schedulers connect here: unix:/path, tcp://host:port or tls://host:port, separated by commas.",
    ),
    click.option(
        "--announce",
        metavar="ADDRESS",
        help="The address under which schedulers reach this process; needed if --listen names all addresses of the "
        "host (0.0.0.0).",
    ),
    click.option(
        "--store",
        metavar="LOCATION",
        help="Keep the partition in this file, or in PostgreSQL (postgresql://...). Other processes with the "
        "same location stand by; needs --listen.",
    ),
    click.option("--partition", "partition_name", metavar="NAME", help="The partition of CONFIG for --listen."),
    click.option("--client-token-file", type=_FILE, help="A file that contains only the token of schedulers."),
    click.option("--certificate", type=_FILE, help="The certificate for tls addresses, with its chain (PEM)."),
    click.option("--key", type=_FILE, help="The private key of the certificate, if it is in another file (PEM)."),
)


def service_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def require_no_service_options(options: JsonObject) -> None:
    """Check that no option of a service was used without ``--listen``.

    Raises:
        click.UsageError: there is one, which would have no effect.
    """
    for parameter in click.get_current_context().command.params:
        if parameter.name != "listen" and options.get(parameter.name or "") is not None:
            raise click.UsageError(f"{parameter.opts[0]} needs --listen")


@contextmanager
def running_service(
    partitions: Iterable[PartitionConfig], subscriber: Callable[[str], Subscriber], options: JsonObject
) -> Iterator[tuple[str, Service]]:
    """Run a service during the block. If it ends by itself meanwhile, the command ends with an error after the block.

    Args:
        partitions: the partitions of the configuration.
        subscriber: returns the subscriber to a partition.
        options: the values of the options.

    Yields:
        The name of the partition, and the service.
    """
    from ugm.service import Service, ServiceSettings, tune_interpreter  # noqa: PLC0415 - needs an extra

    config = _chosen(tuple(partitions), options["partition_name"])
    tune_interpreter()
    with _errors_reported():
        service = Service(
            options["store"],
            options["listen"],
            config=config,
            subscribers=[subscriber(config.name)],
            security=_security(options),
            settings=ServiceSettings(announce=options["announce"] or ""),
        )
    # A signal may end the command as soon as the service starts.
    try:
        with _errors_reported():
            service.start()
        yield config.name, service
        if service.failure is not None:
            exit_with_error(f"ugm: the service has ended: {service.failure!r}")
    finally:
        service.stop()


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

    token_file, certificate = options["client_token_file"], options["certificate"]
    token = token_file.read_text(encoding="utf-8").strip() if token_file else ""
    if certificate is None:
        if options["key"] is not None:
            raise click.UsageError("--key needs --certificate")
        return Security(token)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, options["key"])
    return Security(token, tls)
