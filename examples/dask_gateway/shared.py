"""Limits of a service that several hosts share: the end of a `dask_gateway_config.py`."""

# ruff: noqa: F821, S106
# mypy: ignore-errors

from dask_gateway_server.backends.jobqueue.slurm import SlurmBackend

from ugm.integrations.dask_gateway import limited, quota_source

quotas = quota_source(service="unix:/run/ugm/socket", token_file="/etc/ugm/token")
c.DaskGateway.backend_class = limited(SlurmBackend, quotas, host="gateway-1")
