#!/usr/bin/env bash
# Start a gateway with limits at http://127.0.0.1:8000. Everything that it needs and writes is in the folder
# ~/.cache/ugm-dask-gateway, or in UGM_EXAMPLE. It needs Python.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=${UGM_EXAMPLE:-$HOME/.cache/ugm-dask-gateway}
mkdir -p "$folder" && cd "$folder"
if [ ! -x venv/bin/dask-gateway-server ] || [ ! -x venv/bin/dask ]; then
  python3 -m venv venv
  venv/bin/pip install --quiet "$here/../..[dask-gateway]" 'dask-gateway-server[local]' dask-gateway
fi
if [ ! -f key ]; then
  (umask 077 && venv/bin/python -c 'import base64, os; print(base64.b64encode(os.urandom(32)).decode())' > key)
fi
cp "$here/dask_gateway_config.py" "$here/quota.yaml" .
export PATH="$folder/venv/bin:$PATH" DASK_GATEWAY_ENCRYPT_KEYS
DASK_GATEWAY_ENCRYPT_KEYS=$(cat key)
exec dask-gateway-server -f dask_gateway_config.py "$@"
