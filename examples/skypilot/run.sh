#!/usr/bin/env bash
# Start a server of SkyPilot with limits, and launch a cluster that is too large. It needs Python, and no cloud.
# Everything that it needs and writes is in the folder ~/.cache/ugm-skypilot, or in UGM_EXAMPLE.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=${UGM_EXAMPLE:-$HOME/.cache/ugm-skypilot}
port=${UGM_EXAMPLE_PORT:-8090}
mkdir -p "$folder/.sky" && cd "$folder"
if [ ! -x venv/bin/sky ]; then
  python3 -m venv venv
  venv/bin/pip install --quiet "$here/../..[skypilot]" skypilot
fi
export HOME=$folder PATH="$folder/venv/bin:$PATH"
export SKYPILOT_API_SERVER_LOCAL_PORT=${SKYPILOT_API_SERVER_LOCAL_PORT:-46590}
echo "admin_policy: http://127.0.0.1:$port/skypilot/policy" >.sky/config.yaml
sky api start >/dev/null
python -m ugm.integrations.skypilot serve "$here/quota.yaml" --store quota.db --port "$port" >policy.log 2>&1 &
policy=$!
trap 'kill $policy; sky api stop >/dev/null' EXIT
trap exit INT TERM
until grep -q 'running on' policy.log; do
  kill -0 $policy || { cat policy.log; exit 1; }
  sleep 1
done
sky launch --yes --cluster train --gpus A100:8 --num-nodes 2 'python train.py' || true
echo "SkyPilot asks until you press Ctrl+C. Try: HOME=$HOME SKYPILOT_API_SERVER_LOCAL_PORT=$SKYPILOT_API_SERVER_LOCAL_PORT" \
  "$folder/venv/bin/sky launch --cluster small --cpus 2 hostname"
wait $policy
