# The programs of the cluster, in the background, inside its network. Sourced.

# start NAME PROGRAM...: its output goes to $run/log/NAME.log, its id to $run/pid/NAME.
start() {
    local name=$1
    shift
    nohup setsid nsenter --net="/run/netns/$namespace" "$@" >"$run/log/$name.log" 2>&1 </dev/null &
    echo $! >"$run/pid/$name"
}

# A zombie counts as ended: an orphan stays one where process 1 reaps late.
alive() { grep -qs '^State:.[^Z]' "/proc/$1/status"; }

# stop NAME...: asks all, waits ten seconds for them together, then ends them.
stop() {
    local name pid rounds=100
    for name in "$@"; do
        if [ -f "$run/pid/$name" ]; then kill "$(cat "$run/pid/$name")" 2>/dev/null || true; fi
    done
    for name in "$@"; do
        [ -f "$run/pid/$name" ] || continue
        pid=$(cat "$run/pid/$name")
        while alive "$pid" && [ $((rounds -= 1)) -gt 0 ]; do sleep 0.1; done
        if alive "$pid"; then kill -9 "$pid" 2>/dev/null || true; fi
        rm -f "$run/pid/$name"
    done
}

# lose NAME...: ends all without asking them.
lose() {
    local name
    for name in "$@"; do kill -9 "$(cat "$run/pid/$name")" 2>/dev/null || true; done
    stop "$@"
}

# await SECONDS COMMAND...: until the command succeeds; after that long, tells what it says and fails.
await() {
    local rounds=$(($1 * 10))
    shift
    until "$@" >/dev/null 2>&1; do
        if [ $((rounds -= 1)) -le 0 ]; then
            echo "this does not succeed: $*" >&2
            "$@" >&2 || return 1
        fi
        sleep 0.1
    done
}

start_etcd() {
    start etcd "$bin/etcd" --data-dir "$run/etcd" --unsafe-no-fsync --log-level warn \
        --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
        --listen-peer-urls http://127.0.0.1:0
}

start_api_server() {
    start kube-apiserver "$bin/kube-apiserver" --etcd-servers http://127.0.0.1:2379 \
        --advertise-address "$node_address" --secure-port 6443 \
        --tls-cert-file "$pki/apiserver.crt" --tls-private-key-file "$pki/apiserver.key" --client-ca-file "$pki/ca.crt" \
        --kubelet-client-certificate "$pki/apiserver-kubelet-client.crt" \
        --kubelet-client-key "$pki/apiserver-kubelet-client.key" --kubelet-preferred-address-types InternalIP \
        --service-account-issuer https://kubernetes.default.svc.cluster.local \
        --service-account-key-file "$pki/sa.pub" --service-account-signing-key-file "$pki/sa.key" \
        --service-cluster-ip-range "$service_range" --authorization-mode Node,RBAC \
        --enable-admission-plugins NodeRestriction --allow-privileged
}

start_controllers() {
    start kube-controller-manager "$bin/kube-controller-manager" --kubeconfig "$pki/kube-controller-manager.kubeconfig" \
        --use-service-account-credentials --leader-elect=false --bind-address 127.0.0.1 \
        --service-account-private-key-file "$pki/sa.key" --root-ca-file "$pki/ca.crt" \
        --cluster-signing-cert-file "$pki/ca.crt" --cluster-signing-key-file "$pki/ca.key" \
        --kube-api-qps 100 --kube-api-burst 200
    start kube-scheduler "$bin/kube-scheduler" --kubeconfig "$pki/kube-scheduler.kubeconfig" \
        --leader-elect=false --bind-address 127.0.0.1 --kube-api-qps 100 --kube-api-burst 200
    start load-balancers "$bin/labctl" lb "$kubeconfig" "$lb_first-$lb_last"
}

start_node() {
    start kubelet "$bin/kubelet" --config "$run/kubelet.yaml" --kubeconfig "$pki/kubelet.kubeconfig" \
        --root-dir "$run/kubelet" --hostname-override "$node" --node-ip "$node_address"
    start kube-proxy "$bin/kube-proxy" --config "$run/kube-proxy.yaml"
}
