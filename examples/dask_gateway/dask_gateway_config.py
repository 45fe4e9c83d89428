"""A gateway on one machine, with limits for users and groups. Everybody may log in as anybody, without a password."""

# ruff: noqa: ANN001, ANN201, D101, D102, D103, F821
# mypy: ignore-errors

from dask_gateway_server.auth import SimpleAuthenticator
from dask_gateway_server.backends.local import LocalClusterConfig, UnsafeLocalBackend
from dask_gateway_server.options import Integer, Options
from traitlets import Integer as Number

from ugm import Resource
from ugm.integrations.dask_gateway import limited, quota_source, worker_usage

# The authenticator has no groups of its own.
GROUPS = {"ana": {"lab"}, "ben": {"lab"}}


class Authenticator(SimpleAuthenticator):
    async def authenticate(self, request):
        user = await super().authenticate(request)
        user.groups = GROUPS.get(user.name, set())
        return user


c.DaskGateway.authenticator_class = Authenticator


# Users choose GPUs for their workers.
class ClusterConfig(LocalClusterConfig):
    worker_gpus = Number(0, config=True)


def usage(config):
    return worker_usage(config) + Resource(gpu=config.worker_gpus)


quotas = quota_source("quota.yaml", store="quota.db")
c.DaskGateway.backend_class = limited(UnsafeLocalBackend, quotas, worker=usage)
c.Backend.cluster_config_class = ClusterConfig
c.Backend.cluster_options = Options(Integer("worker_gpus", default=0, min=0, max=2))

# The database, so that clusters survive a restart. The key is in the variable DASK_GATEWAY_ENCRYPT_KEYS.
c.Backend.db_url = "sqlite:///gateway.db"
c.Backend.stop_clusters_on_shutdown = False

c.Proxy.address = "127.0.0.1:8000"
c.ClusterConfig.scheduler_cmd = ["dask", "scheduler"]
c.ClusterConfig.worker_cmd = ["dask", "worker"]
