#!/usr/bin/env bash
# Make a certificate for the webhook in the folder $1, valid for ten years: tls.crt and tls.key.
set -euo pipefail
openssl req -x509 -nodes -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -days 3650 -subj /CN=ugm-webhook \
  -addext 'subjectAltName=DNS:ugm-webhook.ugm-system.svc,DNS:localhost' \
  -keyout "$1/tls.key" -out "$1/tls.crt" 2>/dev/null
