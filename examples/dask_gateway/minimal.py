"""Limits of an embedded partition: the end of a `dask_gateway_config.py`."""

# ruff: noqa: F821
# mypy: ignore-errors

from dask_gateway_server.backends.local import UnsafeLocalBackend

from ugm.integrations.dask_gateway import limited, quota_source

c.DaskGateway.backend_class = limited(UnsafeLocalBackend, quota_source("quota.yaml", store="quota.db"))
