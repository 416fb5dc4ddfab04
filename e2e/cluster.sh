#!/usr/bin/env bash
# A real Kubernetes of one node on this machine, as root: e2e/cluster.sh up|down|restart|status|env|image|dns|in
#   up                      starts it, empty, and waits until its node is ready; e2e/bootstrap.sh comes before
#   down                    ends it; nothing is left (but its logs with KEEP_LOGS=FOLDER)
#   restart                 ends every program without asking it, and starts it with what it had on disk
#   status                  programs with their memory, nodes and pods
#   env                     what to `eval`, so that kubectl and helm mean this cluster
#   image NAME PROGRAM      makes an image of one program and puts it in, where `image: NAME` finds it
#   dns                     adds DNS for Services, which only pods that look them up need
#   in COMMAND...           runs a command in the cluster's network
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$PWD/.tools/kubernetes/bin
labctl=$bin/labctl
for subject in names network host configuration processes images; do . "e2e/cluster/$subject.sh"; done

say() { echo "[$SECONDS s] $*"; }
kubectl() { "$bin/kubectl" --kubeconfig "$kubeconfig" "$@"; }

up() {
    if [ -e "/run/netns/$namespace" ]; then
        echo "a cluster is up already: e2e/cluster.sh down" >&2
        exit 1
    fi
    if [ ! -x "$bin/kubelet" ] || [ ! -f "$bin/../images/envoy.tar" ]; then
        echo "something is missing: e2e/bootstrap.sh builds it" >&2
        exit 1
    fi
    mkdir -p "$run"/{log,pid,cni,etcd,kubelet,containerd} "/run/$namespace"
    note_host
    network_up
    "$labctl" certs "$pki" "$node" "$node_address,$api_service" "$api"
    write_configuration

    start_control_plane
    local image
    for image in .tools/kubernetes/images/*.tar; do load "$image"; done
    say "images loaded"
    start_node
    await 60 kubectl get node "$node"
    kubectl wait --for=condition=Ready "node/$node" --timeout=60s
    await 30 kubectl -n default get serviceaccount default
    say "up; eval \"\$(e2e/cluster.sh env)\""
}

start_control_plane() {
    start containerd containerd -c "$run/containerd.toml"
    start_etcd
    start_api_server
    await 60 kubectl get --raw /readyz
    say "API server ready"
    start_controllers
    await 30 containers version
}

restart() {
    local since
    since=$(date -u +%FT%TZ)
    lose kubelet kube-proxy load-balancers kube-scheduler kube-controller-manager kube-apiserver etcd
    remove_containers
    remove_pod_networks
    start_control_plane
    start_node
    # What the API server has of nodes and pods is of before, until kubelet has told it.
    await 120 restarted_since "$since"
    say "every pod runs again"
}

# Whether the containers of all pods have started since, and are ready.
restarted_since() {
    local ready='{.status.conditions[?(@.type=="Ready")].status}' started='{.status.containerStatuses[*].state.running.startedAt}'
    kubectl get pods --all-namespaces --field-selector=status.phase!=Succeeded \
        -o jsonpath="{range .items[*]}$ready $started{\"\\n\"}{end}" | grep . |
        awk -v since="$1" '$1 != "True" || NF < 2 {exit 1} {for (i = 2; i <= NF; i++) if ($i < since) exit 1}'
}

down() {
    stop kubelet kube-proxy load-balancers kube-scheduler kube-controller-manager
    stop kube-apiserver
    stop etcd
    remove_containers
    network_down
    restore_host
    if [ -n "${KEEP_LOGS:-}" ] && [ -d "$run/log" ]; then
        mkdir -p "$KEEP_LOGS"
        cp -r "$run/log" "$KEEP_LOGS/"
        [ ! -d "$run/pod-logs" ] || cp -r "$run/pod-logs" "$KEEP_LOGS/"
    fi
    rm -rf "$run" "/run/$namespace"
    say "down"
}

status() {
    local file
    for file in "$run"/pid/*; do
        [ -f "$file" ] || { echo "no cluster"; return 1; }
        printf '%-24s %9s KiB\n' "${file##*/}" "$(awk '/VmRSS/ {print $2}' "/proc/$(cat "$file")/status" 2>/dev/null || echo dead)"
    done
    kubectl get nodes,pods --all-namespaces -o wide
}

load() { containers images import --all-platforms "$1" >>"$run/log/images.log"; }

# A name without a registry means docker.io to Kubernetes, and so it must to containerd.
image() {
    local name=$1 tar
    case $name in
    */*/* | *.*/* | localhost/*) ;;
    */*) name=docker.io/$name ;;
    *) name=docker.io/library/$name ;;
    esac
    tar=$(mktemp "$run/image.XXXXXX")
    rm "$tar"
    pack "${tar%/*}" "${tar##*/}" "$name" "$2" "/$(basename "$2")" nonroot:nonroot
    load "$tar.tar"
    rm -f "$tar.tar"
}

dns() {
    local name
    name=$(suite_images coredns)
    sed "s#IMAGE#${name%%,*}#" e2e/cluster/dns.yaml | kubectl apply --server-side -f -
    kubectl -n kube-system rollout status deployment/coredns --timeout=60s
}

case ${1:-} in
up | down | restart | status | dns) "$1" ;;
env) echo "export KUBECONFIG=$kubeconfig PATH=$bin:\$PATH" ;;
image) image "${2:?a name}" "${3:?a program}" ;;
in) shift && inside "$@" ;;
*) sed -n '2,/^set/s/^# \{0,1\}//p' e2e/cluster.sh && exit 2 ;;
esac
