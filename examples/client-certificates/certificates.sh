#!/usr/bin/env bash
# Makes an authority for clients, a certificate of it for the client alice, and one for members.example.com that signs itself; and
# beside this file a ConfigMap of the authority and a Secret of what the Gateway shows.
set -euo pipefail
cd "$(dirname "$0")"
new=(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes)
openssl req -x509 "${new[@]}" -days 30 -keyout authority.key -out authority.crt -subj "/CN=members" 2>/dev/null
openssl req "${new[@]}" -keyout client.key -out client.csr -subj /CN=alice 2>/dev/null
openssl x509 -req -in client.csr -CA authority.crt -CAkey authority.key -set_serial 1 -days 30 -out client.crt \
    -extfile <(printf 'extendedKeyUsage=clientAuth\nauthorityKeyIdentifier=keyid\n') 2>/dev/null
openssl req -x509 "${new[@]}" -days 30 -keyout server.key -out server.crt \
    -subj /CN=members.example.com -addext subjectAltName=DNS:members.example.com 2>/dev/null
cat >made.yaml <<MADE
apiVersion: v1
kind: ConfigMap
metadata:
  namespace: quickstart
  name: members
data:
  ca.crt: |
$(sed 's/^/    /' authority.crt)
---
apiVersion: v1
kind: Secret
metadata:
  namespace: quickstart
  name: members-example-com
type: kubernetes.io/tls
data:
  tls.crt: $(base64 <server.crt | tr -d '\n')
  tls.key: $(base64 <server.key | tr -d '\n')
MADE
