#!/usr/bin/env bash
# Runs the official conformance suite of Gateway API, unmodified, against Portcullis of this checkout, in a cluster that is
# started for it unless one is up, and writes what came of it to docs/conformance.md. It fails if a test does.
# e2e/conformance.sh [flags of the suite], which win over those below. Set these as variables:
#   GATEWAY_CLASS   the class to judge (portcullis); what it publishes in its status is what is tested
#   PROFILES        profiles whose core tests are run even if the class does not publish their features, by commas
#   TEST            one test alone; nothing is written then
#   INSTALL=no      judge what the cluster runs already
#   LOG             where the suite's output goes (target/conformance.log)
set -euo pipefail
cd "$(dirname "$0")/.."
. e2e/steps.sh
class=${GATEWAY_CLASS:-portcullis}
log=${LOG:-target/conformance.log}
bin=.tools/kubernetes/bin
every=GATEWAY-HTTP,GATEWAY-GRPC,GATEWAY-TLS,GATEWAY-TCP,GATEWAY-UDP
mkdir -p target "$(dirname "$log")"

in_a_cluster
if [ "${INSTALL:-}" != no ]; then
    # Tests have more Gateways at once than the one node has CPUs to promise.
    e2e/install.sh --set gatewayClass.parametersRef.group=gateway.kgateway.dev \
        --set gatewayClass.parametersRef.kind=GatewayParameters \
        --set gatewayClass.parametersRef.name=small --set gatewayClass.parametersRef.namespace=portcullis-system
    kubectl apply -f e2e/suite/parameters.yaml
fi
kubectl wait --for=condition=Accepted "gatewayclass/$class" --timeout=60s

flags=(--gateway-class="$class" --cleanup-base-resources=false
    # An address that e2e/cluster.sh can give to a Service, and one that it cannot.
    --usable-address=198.51.100.250 --unusable-address=203.0.113.9
    # The suite waits between tests for implementations that are slow to forget the one before.
    --timeout-config-overrides=TestIsolation:0)
[ -z "${PROFILES:-}" ] || flags+=(--conformance-profiles="$PROFILES")
flags+=("$@")
if [ -n "${TEST:-}" ]; then
    # For a single test the suite takes its features neither from the class nor from the test.
    "$bin/conformance.test" -test.v -test.run '^TestConformance$' "${flags[@]}" \
        --conformance-profiles="${PROFILES:-$every}" --run-test="$TEST"
    exit
fi

"$bin/conformance.test" -test.v=test2json -test.run '^TestConformance$' -test.timeout 90m "${flags[@]}" >"$log" 2>&1 || true
passed=yes
"$bin/verdict" "$log" e2e/suite/reasons.txt >target/conformance.md || passed=no
# Nothing is written over what is known when the suite did not even begin.
grep -q '=== RUN *TestConformance/' "$log" || { tail -20 "$log" >&2; exit 1; }
mv target/conformance.md docs/conformance.md
sed -n '/^| profile/,/^$/p' docs/conformance.md
[ $passed = yes ]
