"""The backends of Dask Gateway that can have quotas; `tests/system/integrations` has tests with the gateway itself."""

from __future__ import annotations

import pytest
from dask_gateway_server.backends import base, db_base  # type: ignore[import-not-found, import-untyped, unused-ignore]
from traitlets.config import Config  # type: ignore[import-not-found, unused-ignore]

from support.places import EXAMPLES
from ugm import Partition, RequestError
from ugm.integrations.dask_gateway import limited

pytestmark = pytest.mark.ci


def test_backends_without_a_database() -> None:
    """A backend that keeps its state in Kubernetes is refused: there, the webhook limits it."""

    class KubeBackend(base.Backend):  # type: ignore[misc]
        pass

    async def source() -> Partition:
        return Partition()

    with pytest.raises(RequestError, match="admission webhook"):
        limited(KubeBackend, source)


@pytest.mark.parametrize("name", ["minimal", "shared"])
def test_the_lines_of_the_page(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines of the examples limit a backend."""
    monkeypatch.chdir(EXAMPLES / "dask_gateway")
    config = Config()
    exec((EXAMPLES / "dask_gateway" / f"{name}.py").read_text("utf-8"), {"c": config})  # noqa: S102 - as the gateway does
    assert issubclass(config.DaskGateway.backend_class, db_base.DBBackendBase)
