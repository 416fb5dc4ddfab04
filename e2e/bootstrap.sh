#!/usr/bin/env bash
# Builds what the cluster consists of into .tools/kubernetes: programs, images, CRDs. What is there and of the versions
# pinned below e2e/ is left alone. From nothing it takes about ten minutes on two cores. As root, it installs what Debian has.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p .tools/kubernetes/{bin,images}
out=$(cd .tools/kubernetes && pwd)
. e2e/cluster/images.sh

step() {
    local since=$SECONDS
    echo "== $1"
    shift
    "$@"
    echo "   $((SECONDS - since)) s"
}

debian() {
    local program missing=()
    for program in containerd runc nft iptables conntrack ip /usr/lib/cni/ptp; do
        command -v "$program" >/dev/null || missing+=("$program")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
        containerd runc containernetworking-plugins nftables iptables conntrack iproute2 >/dev/null
}

go_program() { .ci/go-program .tools/kubernetes "$@"; }

small_programs() {
    go_program labctl labctl go build .
    go_program pause pause go build .
}

suite() {
    go_program suite conformance.test go test -c .
    go_program suite verdict go build ./verdict
    go_program suite echo-basic go build sigs.k8s.io/gateway-api/conformance/echo-basic
}

crds() {
    local folder channel
    folder=$(cd e2e/suite && go list -m -f '{{.Dir}}' sigs.k8s.io/gateway-api)
    for channel in standard experimental; do
        rm -rf "$out/crds/$channel"
        mkdir -p "$out/crds/$channel"
        # Without kustomize's file, over which `kubectl apply -f FOLDER` trips.
        install -m 644 "$folder/config/crd/$channel"/gateway*.yaml "$out/crds/$channel/"
    done
}

step "Debian packages" debian
step "labctl, pause" small_programs
step "Kubernetes" .ci/install-kubernetes .tools/kubernetes \
    etcd kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy kubectl
step "conformance suite, echo-basic" suite
step "CRDs" crds
step "coredns" go_program coredns coredns go build .
step "API server of the tests, helm" make --silent kubernetes
step "Envoy" make --silent envoy
step "images" build_images "$out"
