#!/usr/bin/env bash
# Shows what only a cluster shows, in one that is started for it unless one is up: Portcullis is installed by its charts, a
# Gateway's proxies come up and serve, proxies and controllers are replaced under load without a failed request, and nothing
# is left when all of it is removed. Between the two come the safety nets (nets.sh), with another build: FAULTY_BIN, or the
# one that is built for it with debug assertions. INSTALL=no takes what is installed, and removes it too.
set -euo pipefail
cd "$(dirname "$0")/.."
. e2e/steps.sh

in_a_cluster
[ "${INSTALL:-}" = no ] || e2e/install.sh >/dev/null

say "a Gateway, its route and a backend"
serve
[ "$(curl --silent -o /dev/null -w '%{http_code}' "http://$address/")" = 404 ]

say "the controller asked by a port forwarded to its pod"
program=${PORTCULLIS_BIN:-${CARGO_TARGET_DIR:-target}/release/portcullis}
[ -x "$program" ] || cargo build --quiet --release --bin portcullis
"$program" status --from controller -n shop
"$program" explain --from controller -n shop --gateway edge http://shop.example.com/ | grep -q 'Service shop/echo port 80'
"$program" config-dump --from controller -n shop --gateway edge | grep -q '^- gateway: shop/edge'
diff <("$program" tree --from controller -n shop) <("$program" tree --from api-server -n shop)
kubectl -n shop apply -f - >/dev/null <<X
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: broken}
spec:
  parentRefs: [{name: edge}]
  hostnames: [broken.example.com]
  rules:
  - backendRefs: [{name: gone, port: 80}]
X
kubectl -n shop wait --for=jsonpath='{.status.parents[0].conditions[?(@.type=="ResolvedRefs")].status}'=False httproute/broken --timeout=30s >/dev/null
told=$("$program" status --from controller -n shop httproute/broken) || [ $? = 1 ]
grep -q BackendNotFound <<<"$told"
kubectl -n shop delete httproute broken >/dev/null

gone() { kubectl -n shop wait --for=delete pod -l gateway.networking.k8s.io/gateway-name=edge,pod-template-hash="$1" --timeout=120s; }
old=$(kubectl -n shop get pods -l gateway.networking.k8s.io/gateway-name=edge -o jsonpath='{.items[0].metadata.labels.pod-template-hash}')
proxies() { replace shop edge-portcullis && gone "$old"; }

say "proxies replaced under load"
under_load "replacing proxies" proxies
say "controllers replaced under load"
under_load "replacing controllers" replace portcullis-system portcullis
say "all controllers gone, and back"
without() { kubectl -n portcullis-system scale deployment/portcullis --replicas=0 && sleep 5 && kubectl -n portcullis-system scale deployment/portcullis --replicas=2 && kubectl -n portcullis-system rollout status deployment/portcullis --timeout=120s; }
under_load "going without controllers" without

. e2e/nets.sh

say "what is removed leaves nothing"
kubectl -n shop delete gateway edge >/dev/null
kubectl -n shop wait --for=delete deployment/edge-portcullis service/edge-portcullis serviceaccount/edge-portcullis configmap/edge-portcullis --timeout=60s >/dev/null
helm uninstall portcullis --namespace portcullis-system --wait >/dev/null
kubectl -n portcullis-system wait --for=delete pod --all --timeout=60s >/dev/null
left=$(kubectl get all,configmaps,secrets,serviceaccounts,leases,roles,rolebindings,networkpolicies,poddisruptionbudgets \
    -n portcullis-system -o name | grep -v -e kube-root-ca.crt -e serviceaccount/default || true)
left+=$(kubectl get clusterroles,clusterrolebindings,gatewayclasses -o name | grep portcullis || true)
[ -z "$left" ] || { echo "left behind: $left" >&2; exit 1; }
kubectl delete namespace shop portcullis-system >/dev/null
say "all is well"
