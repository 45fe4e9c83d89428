#!/usr/bin/env bash
# Start a hub with limits at http://127.0.0.1:8000. Log in as ana, ben or eve, with any password.
# Everything that it needs and writes is in the folder ~/.cache/ugm-jupyterhub, or in UGM_EXAMPLE. It needs Python and npm.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=${UGM_EXAMPLE:-$HOME/.cache/ugm-jupyterhub}
mkdir -p "$folder" && cd "$folder"
if [ ! -x venv/bin/jupyterhub-singleuser ]; then
  python3 -m venv venv
  venv/bin/pip install --quiet "$here/../..[jupyterhub]" jupyterlab
fi
export PATH="$folder/venv/bin:$folder/node_modules/.bin:$PATH"
command -v configurable-http-proxy >/dev/null || npm install --silent --no-fund --no-audit configurable-http-proxy
cp "$here/jupyterhub_config.py" "$here/quota.yaml" .
[ "$(id -u)" -ne 0 ] || set -- "--Spawner.args=--allow-root" "$@"
exec jupyterhub -f jupyterhub_config.py "$@"
