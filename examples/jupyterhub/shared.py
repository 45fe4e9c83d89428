"""Limits of a service that hubs share: the end of the `jupyterhub_config.py` of each of them."""

# ruff: noqa: F821, S106
# mypy: disable-error-code="name-defined"

from ugm.integrations.jupyterhub import limit_servers, quota_source

limits = limit_servers(c, quota_source(service="unix:/run/ugm/socket", token_file="token"), host="hub-1")
c.Spawner.options_form = limits.options_form()
