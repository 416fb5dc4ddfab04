#!/usr/bin/env bash
# Installs Portcullis of this checkout into the running cluster: CRDs of Gateway API's experimental channel, an image of
# the program, the charts. e2e/install.sh [flags of helm]. PORTCULLIS_BIN names a program that is built already.
set -euo pipefail
cd "$(dirname "$0")/.."
eval "$(e2e/cluster.sh env)"
program=${PORTCULLIS_BIN:-}
if [ -z "$program" ]; then
    cargo build --quiet --release --bin portcullis
    program=${CARGO_TARGET_DIR:-target}/release/portcullis
fi

e2e/cluster.sh image portcullis:dev "$program"
kubectl apply --server-side -f .tools/kubernetes/crds/experimental/ >/dev/null
kubectl wait --for=condition=Established crd --all --timeout=30s >/dev/null
# Proxies find the controller by the name of its Service.
e2e/cluster.sh dns >/dev/null
helm upgrade --install portcullis-crds charts/portcullis-crds
runs=$(kubectl -n portcullis-system get deployment portcullis --ignore-not-found --output name)
helm upgrade --install portcullis charts/portcullis --namespace portcullis-system --create-namespace --wait \
    --set image.repository=portcullis --set image.tag=dev --set image.pullPolicy=Never "$@"
# What ran before has the image that had this name before.
if [ -n "$runs" ]; then
    kubectl -n portcullis-system rollout restart "$runs"
    kubectl -n portcullis-system rollout status "$runs" --timeout=120s
fi
