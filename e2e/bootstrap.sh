#!/usr/bin/env bash
# Builds what the cluster consists of into .tools/kubernetes: programs, images, CRDs. What is there and of the versions
# pinned below e2e/ is left alone. From nothing it takes about ten minutes on two cores. As root, it installs what Debian has.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p .tools/kubernetes/{bin,built,images}
out=$(cd .tools/kubernetes && pwd)
export CGO_ENABLED=0
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

# go_program MODULE PROGRAM BUILD...: runs BUILD, a go command, in e2e/MODULE unless its PROGRAM is there and of these sources.
go_program() {
    local module=$1 program=$2 sources
    shift 2
    sources=$(find "e2e/$module" -type f | sort | xargs cat | sha256sum)
    if [ ! -x "$out/bin/$program" ] || [ "$(cat "$out/built/$program" 2>/dev/null)" != "$sources" ]; then
        (cd "e2e/$module" && "${@:1:2}" -trimpath -o "$out/bin/$program.new" "${@:3}")
        mv "$out/bin/$program.new" "$out/bin/$program"
        echo "$sources" >"$out/built/$program"
    fi
}

small_programs() {
    go_program labctl labctl go build -buildvcs=false .
    go_program pause pause go build -buildvcs=false -ldflags "-s -w" .
}

suite() {
    go_program suite conformance.test go test -c .
    go_program suite verdict go build -buildvcs=false ./verdict
    go_program suite echo-basic go build -buildvcs=false -ldflags "-s -w" sigs.k8s.io/gateway-api/conformance/echo-basic
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
step "coredns" go_program coredns coredns go build -buildvcs=false -ldflags "-s -w" .
step "helm" go_program helm helm go build -buildvcs=false -ldflags "-s -w" helm.sh/helm/v3/cmd/helm
step "Envoy" make --silent envoy
step "images" build_images "$out"
