#!/usr/bin/env bash
# Start the webhook on the loopback interface with the quotas of config.yaml, and ask it as an API server does.
# Everything that it needs and writes is in the folder ~/.cache/ugm-kubernetes, or in UGM_EXAMPLE. It needs Python, curl
# and openssl, and no cluster.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=${UGM_EXAMPLE:-$HOME/.cache/ugm-kubernetes} port=${1:-8443}
mkdir -p "$folder" && cd "$folder"
python=${PYTHON:-$folder/venv/bin/python}
if ! command -v "$python" >/dev/null; then
  python3 -m venv venv
  venv/bin/pip install --quiet "$here/../..[kubernetes]"
fi
bash "$here/certificate.sh" .
"$python" -c 'import sys, yaml; print(yaml.safe_load(sys.stdin)["data"]["quota.yaml"])' <"$here/config.yaml" >quota.yaml
"$python" -m ugm.integrations.kubernetes quota.yaml --no-watch --port "$port" --tls-cert tls.crt --tls-key tls.key \
  2>webhook.log &
trap 'kill $!' EXIT
url="https://localhost:$port"
curl --silent --retry 60 --retry-delay 1 --retry-all-errors --fail --cacert tls.crt --output ready.txt "$url/healthz"

# Ask for an object: TEXT USER KIND UID SPEC [DRY_RUN].
ask() {
  local group=apps
  [ "$3" = Deployment ] || group=
  echo "$1"
  curl --silent --show-error --fail --cacert tls.crt --json @- "$url/kubernetes/admit" <<REVIEW | "$python" -c '
import json, sys
response = json.load(sys.stdin)["response"]
print("  allowed" if response["allowed"] else "  denied: " + response["status"]["message"])
for warning in response.get("warnings", ()):
    print("  warning:", warning)'
{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
  "uid": "review-$4", "kind": {"group": "$group", "version": "v1", "kind": "$3"}, "operation": "CREATE",
  "namespace": "dev", "userInfo": {"username": "$2", "groups": ["system:authenticated"]}, "dryRun": ${6:-false},
  "object": {"kind": "$3", "metadata": {"name": "example", "namespace": "dev", "uid": "$4"}, "spec": $5}}}
REVIEW
}

# The specification of a pod with a number of cores.
cores() { printf '{"containers": [{"name": "main", "resources": {"requests": {"cpu": "%s"}}}]}' "$1"; }
# The specification of a Deployment: the number of pods, the cores of each, and the label with the owner.
pods() { printf '{"replicas": %s, "template": {"metadata": {"labels": {%s}}, "spec": %s}}' "$1" "$3" "$(cores "$2")"; }

ask 'ana creates a pod with 3 cores' ana Pod pod-1 "$(cores 3)"
ask 'ana creates a pod with 2 cores' ana Pod pod-2 "$(cores 2)"
ask 'ana tries a pod with 1 core (dry run)' ana Pod pod-3 "$(cores 1)" true
ask 'ana creates a pod with 900m cores' ana Pod pod-4 "$(cores 900m)"
ask 'ben creates a Deployment without an owner' ben Deployment deployment-1 "$(pods 3 2 '')"
ask 'ben creates a Deployment for ana' ben Deployment deployment-2 "$(pods 3 2 '"ugm/user": "ana"')"
ask 'ben creates a Deployment of 3 pods' ben Deployment deployment-3 "$(pods 3 2 '"ugm/user": "ben"')"
