#!/usr/bin/env bash
# Makes a ConfigMap of the authority of secure.example.com, which examples/tls/certificate.sh made: it signs itself.
set -euo pipefail
cd "$(dirname "$0")"
{
    printf 'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  namespace: quickstart\n  name: authority\ndata:\n  ca.crt: |\n'
    sed 's/^/    /' ../tls/tls.crt
} >authority.yaml
