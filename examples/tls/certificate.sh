#!/usr/bin/env bash
# Makes a certificate for secure.example.com that signs itself, and a Secret of it beside this file.
set -euo pipefail
cd "$(dirname "$0")"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -keyout tls.key -out tls.crt \
    -subj /CN=secure.example.com -addext subjectAltName=DNS:secure.example.com 2>/dev/null
cat >secret.yaml <<SECRET
apiVersion: v1
kind: Secret
metadata:
  namespace: quickstart
  name: secure-example-com
type: kubernetes.io/tls
data:
  tls.crt: $(base64 <tls.crt | tr -d '\n')
  tls.key: $(base64 <tls.key | tr -d '\n')
SECRET
