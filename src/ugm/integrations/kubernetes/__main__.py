"""``python -m ugm.integrations.kubernetes``: starts the webhook and its watcher."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click
import uvicorn

from ugm.errors import UgmError
from ugm.integrations import Grants, Work, quota_source
from ugm.integrations.kubernetes.admission import (
    CONTROLLERS,
    EXEMPT,
    TENTATIVE,
    FindNamespace,
    OwnerPolicy,
    PodAdmission,
    create_app,
)
from ugm.integrations.kubernetes.watcher import Watcher
from ugm.kubernetes import NamespaceTerms
from ugm.kubernetes.objects import require_variants

__all__ = ["main"]

#: The maximum time of a call to a quota service; the API server waits for 5 seconds.
_DEADLINE: Final = 2.0
_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("ugm.integrations.kubernetes")
@click.argument("config", type=_FILE, required=False)
@click.option("--store", type=click.Path(dir_okay=False, path_type=Path), help="The file that keeps the charges.")
@click.option("--service", metavar="ADDRESSES", help="A quota service, instead of CONFIG.")
@click.option("--token-file", type=_FILE, help="The file with the token of the quota service.")
@click.option("--cluster-name", default="kubernetes", show_default=True, help="The prefix of all ids in the ledger.")
@click.option("--page", type=click.IntRange(1, 65535), help="The local port for the page of the quotas.")
@click.option("--trust", metavar="USER", multiple=True, help="A creator that may name the owners of pods.")
@click.option("--exempt", metavar="NAMESPACE", multiple=True, help="A namespace without charges, like kube-system.")
@click.option("--charge-service-accounts", is_flag=True, help="Charge pods without an owner to their service account.")
@click.option(
    "--variant",
    "variants",
    type=(str, str),
    metavar="LABEL=VALUE FAMILY:VARIANT",
    multiple=True,
    help="A variant of a resource, such as nvidia.com/gpu:a100, and the label of the nodes that have it.",
)
@click.option("--no-watch", is_flag=True, help="Do not follow the pods; another webhook of the same service does.")
@click.option("--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(1, 65535), default=8443, show_default=True, help="The port.")
@click.option("--tls-cert", "ssl_certfile", type=_FILE, help="The certificate, which the API server requires.")
@click.option("--tls-key", "ssl_keyfile", type=_FILE, help="The key of the certificate.")
def main(
    config: Path | None,
    *,
    cluster_name: str,
    trust: tuple[str, ...],
    exempt: tuple[str, ...],
    charge_service_accounts: bool,
    variants: tuple[tuple[str, str], ...],
    no_watch: bool,
    **options: Any,  # noqa: ANN401 - those of the quotas and of the server
) -> None:
    """Admit pods within the quotas of CONFIG, or of a quota service."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    logging.getLogger("kopf").setLevel(logging.WARNING)  # it logs every event of a pod
    try:
        rules = require_variants(dict(variants))
        places = {name: options.pop(name) for name in ("store", "service", "token_file", "page")}
        grants = Grants(quota_source(config, **places, deadline=_DEADLINE), cluster_name, tentative=TENTATIVE)
    except (UgmError, OSError) as error:
        raise click.ClickException(str(error)) from error
    policy = OwnerPolicy(CONTROLLERS.union(trust), EXEMPT.union(exempt), charge_service_accounts)
    asyncio.run(_serve(grants, policy, rules, options, watches=not no_watch))


async def _serve(
    grants: Grants, policy: OwnerPolicy, variants: Mapping[str, str], options: dict[str, Any], *, watches: bool
) -> None:
    """Serve until the process gets a signal to end. kopf takes the signals, so the server ends with the watch."""
    if watches:
        from ugm.integrations.kubernetes._cluster import list_objects, watch  # noqa: PLC0415 - kopf is large

        watcher = Watcher(grants, list_objects, policy, variants)
        find_namespace: FindNamespace = watcher.find_namespace
        work = [grants.keep_reconciled(watcher.list_work), watch(watcher)]
    else:  # without a list of pods, what the ledger holds stays
        find_namespace, work = _plain_namespace, [grants.keep_reconciled(lambda held: Work(starting=held))]
    app = create_app(PodAdmission(grants, find_namespace, policy, variants))
    server = uvicorn.Server(uvicorn.Config(app, **options, access_log=False, log_config=None))
    tasks = [asyncio.create_task(one) for one in (server.serve(), *work)]
    ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    server.should_exit = True
    await asyncio.gather(tasks[0], *ended)


async def _plain_namespace(name: str) -> NamespaceTerms:
    return NamespaceTerms(name)


if __name__ == "__main__":
    main(prog_name="python -m ugm.integrations.kubernetes")
