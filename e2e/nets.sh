# The safety nets, under load, with a build in which one check is off and faults can be asked for: a tree of routes outlives the
# restart of everything that serves it, and of Kubernetes, Envoy's word replaces what that check would have found, and an object on
# which the translation fails is set aside. Sourced by e2e.sh, whose Gateway `edge` it uses.

# says VALUE: a policy adds a header to requests for /said of the tree.
says() {
    kubectl -n shop apply -f - >/dev/null <<X
apiVersion: gateway.kgateway.dev/v1alpha1
kind: TrafficPolicy
metadata: {name: said}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: tree, sectionName: said}]
  headerModifiers: {request: {set: [{name: x-said, value: '$1'}]}}
X
}

[ -n "${FAULTY_BIN:-}" ] || { cargo build --quiet --bin portcullis && FAULTY_BIN=${CARGO_TARGET_DIR:-target}/debug/portcullis; }
e2e/cluster.sh image portcullis:faulty "$FAULTY_BIN"
tree
keep
child echo
answers / 200
load_host=tree.example.com

say "controllers of another build, which keep trees"
under_load "another build" installed --set image.tag=faulty --set freeze.enabled=true
told httproute tree portcullis.dev/Frozen False
say "a child breaks, and its tree stays as it was"
breaks() { child gone && told httproute tree portcullis.dev/Frozen True; }
under_load "a child that breaks" breaks
say "controllers replaced while it is broken"
under_load "replacing controllers" replace portcullis-system portcullis
say "all that serves it gone, and back, with other endpoints"
kubectl -n portcullis-system scale deployment/portcullis --replicas=0 >/dev/null
kubectl -n portcullis-system wait --for=delete pod -l app.kubernetes.io/name=portcullis --timeout=60s >/dev/null
kubectl -n shop delete pod --all --wait >/dev/null
kubectl -n portcullis-system scale deployment/portcullis --replicas=2 >/dev/null
kubectl -n portcullis-system rollout status deployment/portcullis --timeout=120s >/dev/null
kubectl -n shop rollout status deployment/edge-portcullis --timeout=120s >/dev/null
kubectl -n shop rollout status deployment/echo --timeout=120s >/dev/null
answers / 200
told httproute tree portcullis.dev/Frozen True
"$program" tree --edition shop/tree | grep -q 'HTTPRoute shop/child'
say "all programs of their machine end, and start again, the API server too"
e2e/cluster.sh restart
answers / 200
say "the child is mended, and served"
mends() { child echo /mended && answers /mended 200 && told httproute tree portcullis.dev/Frozen False; }
under_load "a child that is mended" mends
kubectl -n shop delete delegationpolicy keep >/dev/null

say "a judge beside the controllers"
under_load "controllers with a judge" installed --set freeze.enabled=false --set validation.level=Strict
says hello
answers /said 200
say "what its Envoy alone refuses is replaced"
refused() { says 'test.portcullis.dev/unchecked %NO_SUCH_COMMAND%' && answers /said 500; }
under_load "what a judge refuses" refused
told httproute tree kgateway.dev/Programmed False
kubectl -n shop get httproute tree -o jsonpath='{.status}' | grep -q 'refuses it: '
accepted() { says hello && answers /said 200; }
under_load "what a judge accepts" accepted

say "what its Envoy alone refuses of a tree that is kept is not kept"
keep
under_load "controllers with a judge that keep trees" installed --set freeze.enabled=true
told httproute tree portcullis.dev/Frozen False
spared() {
    says 'test.portcullis.dev/unchecked %NO_SUCH_COMMAND%' && told httproute tree portcullis.dev/Frozen True && answers /said 200
}
under_load "what a judge refuses of a tree that is kept" spared
kubectl -n shop get httproute tree -o jsonpath='{.status}' | grep -q 'refuses it: '
under_load "replacing controllers that keep what was good" replace portcullis-system portcullis
told httproute tree portcullis.dev/Frozen True
answers /said 200
kept() { says good && told httproute tree portcullis.dev/Frozen False && answers /said 200; }
under_load "what a judge accepts of a tree that is kept" kept
kubectl -n shop delete delegationpolicy keep >/dev/null

say "an object on which the translation fails is set aside"
fails() {
    kubectl -n shop annotate gateway edge test.portcullis.dev/fail-at='GatewayRow:NsName { namespace: "shop", name: "edge" }' >/dev/null &&
        told gateway edge portcullis.dev/Quarantined True && child echo /later && answers /later 200
}
under_load "a Gateway that is set aside" fails
kubectl -n shop annotate gateway edge test.portcullis.dev/fail-at- >/dev/null
kubectl -n shop wait gateway/edge --timeout=60s \
    --for=jsonpath='{.status.conditions[?(@.type=="Programmed")].status}'=True >/dev/null
healed=
for _ in $(seq 100); do
    kubectl -n shop get gateway edge -o jsonpath='{.status}' | grep -q Quarantined || { healed=yes && break; }
    sleep 0.2
done
[ -n "$healed" ] || { echo "the Gateway is still set aside" >&2; exit 1; }
load_host=shop.example.com
