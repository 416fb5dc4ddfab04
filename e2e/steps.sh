# What scripts that show something in a cluster do: serve something, send requests, change what serves, wait for what is told.
# Sourced, from the project's folder.

load=.tools/kubernetes/bin/labctl
load_host=shop.example.com

say() { echo "== $*"; }
# in_a_cluster: starts one for this script alone, unless one is up.
in_a_cluster() {
    if ! e2e/cluster.sh status >/dev/null 2>&1; then
        e2e/bootstrap.sh
        e2e/cluster.sh up
        trap 'KEEP_LOGS=target/cluster e2e/cluster.sh down' EXIT
    fi
    eval "$(e2e/cluster.sh env)"
}
# under_load NAME COMMAND...: runs it while requests for that host are sent, all of which must be answered.
under_load() {
    local name=$1 pid
    shift
    "$load" load "http://$address/" "$load_host" &
    pid=$!
    "$@" >/dev/null
    # What was replaced ends only after it was left out.
    sleep 5
    kill "$pid"
    wait "$pid" || { echo "$name cost requests" >&2; exit 1; }
}
# replace NAMESPACE DEPLOYMENT: other pods in place of all that it has.
replace() { kubectl -n "$1" rollout restart "deployment/$2" && kubectl -n "$1" rollout status "deployment/$2" --timeout=120s; }
# serve: a Gateway `edge`, its route and a backend, at $address.
serve() {
    kubectl create namespace shop >/dev/null
    kubectl -n shop apply -f e2e/cluster/echo.yaml -f - >/dev/null <<X
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge}
spec:
  gatewayClassName: portcullis
  listeners: [{name: http, port: 80, protocol: HTTP}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: shop}
spec:
  parentRefs: [{name: edge}]
  hostnames: [shop.example.com]
  rules:
  - backendRefs: [{name: echo, port: 80}]
X
    kubectl -n shop rollout status deployment/echo --timeout=60s >/dev/null
    kubectl -n shop wait --for=condition=Programmed gateway/edge --timeout=60s >/dev/null
    address=$(kubectl -n shop get gateway edge -o jsonpath='{.status.addresses[0].value}')
    curl --silent --fail --retry 10 --retry-all-errors --retry-delay 1 -H 'Host: shop.example.com' "http://$address/" >/dev/null
}
# tree: a route with a child, which is `child`.
tree() {
    kubectl -n shop apply -f - >/dev/null <<X
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: tree}
spec:
  parentRefs: [{name: edge}]
  hostnames: [tree.example.com]
  rules:
  - name: said
    matches: [{path: {type: Exact, value: /said}}]
    backendRefs: [{name: echo, port: 80}]
  - matches: [{path: {value: /}}]
    backendRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: child}]
X
}
# told KIND NAME TYPE STATUS: waits for a condition of an object; of a route, of its first parent.
told() {
    local where=.status
    [ "$1" = gateway ] || where='.status.parents[0]'
    kubectl -n shop wait "$1/$2" --timeout=60s --for=jsonpath="{$where.conditions[?(@.type==\"$3\")].status}"="$4" >/dev/null
}
# answers PATH STATUS: waits until that is what requests for the tree get.
answers() {
    local got
    for _ in $(seq 300); do
        got=$(curl --silent -o /dev/null -w '%{http_code}' -H 'Host: tree.example.com' "http://$address$1" || true)
        [ "$got" != "$2" ] || return 0
        sleep 0.2
    done
    echo "$1 answers $got, not $2" >&2
    exit 1
}
# child SERVICE [PATH]: the child of the tree, with another path if one is given.
child() {
    local more=
    [ -z "${2:-}" ] || more=", {path: {type: Exact, value: $2}}"
    kubectl -n shop apply -f - >/dev/null <<X
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: child}
spec:
  parentRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: tree}]
  rules:
  - matches: [{path: {value: /}}$more]
    backendRefs: [{name: $1, port: 80}]
X
}
# keep: the tree is to keep its last good version.
keep() {
    kubectl -n shop apply -f - >/dev/null <<X
apiVersion: gateway.portcullis.dev/v1alpha1
kind: DelegationPolicy
metadata: {name: keep}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: tree}]
  failureMode: FreezeConfig
X
}
# installed FLAGS...: Portcullis with other values, which takes new controllers.
installed() {
    helm upgrade portcullis charts/portcullis --namespace portcullis-system --reuse-values --wait "$@" &&
        kubectl -n portcullis-system rollout status deployment/portcullis --timeout=120s
}
