"""A hub on one machine, for any user name and password. `run.sh` starts it."""

# ruff: noqa: ANN001, ANN201, D103, E402, F821
# mypy: disable-error-code="name-defined,no-untyped-def,no-untyped-call"

c = get_config()
c.JupyterHub.bind_url = "http://127.0.0.1:8000"
c.JupyterHub.authenticator_class = "dummy"
c.JupyterHub.spawner_class = "simple"
c.JupyterHub.allow_named_servers = True
c.Authenticator.allow_all = True
c.JupyterHub.load_groups = {"lab": {"users": ["ana", "ben"]}, "ops": {"users": ["eve"]}}

# Users choose the size of their server.
c.Spawner.options_form = """
<label>Memory: <select name="memory"><option>1G</option><option>2G</option><option>8G</option></select></label>
<label>GPUs: <select name="gpu"><option>0</option><option>1</option></select></label>
"""
c.Spawner.options_from_form = lambda form: {"memory": form["memory"][0], "gpu": int(form["gpu"][0])}
c.Spawner.apply_user_options = lambda spawner, options: setattr(spawner, "mem_limit", options.get("memory", "1G"))

# The limits, at the end.
from ugm import Resource
from ugm.integrations.jupyterhub import limit_servers, quota_source, server_usage


def usage(spawner):
    return server_usage(spawner) + Resource(gpu=spawner.user_options.get("gpu", 0))


limit_servers(c, quota_source("quota.yaml", store="quota.db"), usage=usage)
