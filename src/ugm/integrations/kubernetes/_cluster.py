"""The API server of a cluster: consistent lists with aiohttp, and a watch with kopf, which writes nothing."""

from __future__ import annotations

from typing import Any, Final

import aiohttp
import kopf

from ugm.integrations.kubernetes.watcher import Watcher

#: The number of objects in an answer; parsing more at once would delay reviews.
_PAGE: Final = "200"
_TIMEOUT: Final = aiohttp.ClientTimeout(total=30)


async def list_objects(path: str) -> list[dict[str, Any]]:
    """Return all objects of a kind, as they are stored now. Each call logs in, because tokens of pods are replaced."""
    found: list[dict[str, Any]] = []
    after: str | None = ""
    async with _session() as session:
        while after is not None:
            async with session.get(path, params={"limit": _PAGE, "continue": after}) as response:
                page = await response.json()
            found += page["items"]
            after = page["metadata"].get("continue") or None
    return found


async def watch(watcher: Watcher) -> None:
    """Tell a watcher about the pods of the cluster, until the process gets a signal to end."""
    registry, settings = kopf.OperatorRegistry(), kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.scanning.disabled = True
    kopf.on.login(registry=registry)(_login)
    kopf.on.event("", "v1", "pods", registry=registry)(watcher.pod_changed)
    await kopf.operator(registry=registry, settings=settings, standalone=True, clusterwide=True)


def _login(settings: kopf.OperatorSettings, **_: object) -> kopf.ConnectionInfo:
    """Return the address of the API server, with the credentials of this pod or of the user.

    Raises:
        kopf.LoginError: there is neither a service account nor a kubeconfig.
    """
    info = kopf.login_with_service_account(settings=settings) or kopf.login_with_kubeconfig(settings=settings)
    if info is None:
        raise kopf.LoginError("expected a service account or a kubeconfig")
    return info


def _session() -> aiohttp.ClientSession:
    info = _login(kopf.OperatorSettings())
    connector, headers = aiohttp.TCPConnector(ssl=info.as_ssl_context()), info.as_http_headers()
    return aiohttp.ClientSession(
        info.server, connector=connector, headers=headers, proxy=info.proxy_url, timeout=_TIMEOUT, raise_for_status=True
    )
