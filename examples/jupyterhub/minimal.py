"""Limits in the hub itself: the end of a `jupyterhub_config.py`."""

# ruff: noqa: F821
# mypy: disable-error-code="name-defined"

from ugm.integrations.jupyterhub import limit_servers, quota_source

limit_servers(c, quota_source("quota.yaml", store="quota.db"))
