# The cluster lives in a network namespace that the host reaches by a pair of interfaces and that has no way out: no
# address of a pod or Service ever leaves the machine. Sourced.

network_up() {
    ip netns add "$namespace"
    ip link add e2e-host type veth peer name e2e-node netns "$namespace"
    ip address add "$host_address/24" dev e2e-host
    ip link set e2e-host up
    ip -n "$namespace" link set lo up
    ip -n "$namespace" address add "$node_address/24" dev e2e-node
    ip -n "$namespace" link set e2e-node up
    ip route add "$lb_range" via "$node_address" dev e2e-host
    # kube-proxy rewrites before anything is sent, but only what has a route.
    ip -n "$namespace" route add "$service_range" dev e2e-node
    ip -n "$namespace" route add blackhole "$pod_range" metric 1000
    # What has nowhere to go fails at once instead of after a timeout.
    ip -n "$namespace" route add unreachable default metric 4000000000
    inside sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0
}

remove_pod_networks() {
    local pod
    for pod in $(pod_namespaces); do
        grep -qsx "$pod" "$run/foreign-pods" || ip netns delete "$pod" 2>/dev/null || true
    done
}

network_down() {
    remove_pod_networks
    ip netns delete "$namespace" 2>/dev/null || true
    ip link delete e2e-host 2>/dev/null || true
}

# `ip netns exec` would remount /sys and hide the cgroups.
inside() { nsenter --net="/run/netns/$namespace" "$@"; }

# The network namespaces that CNI plugins have made on this machine, for whomever.
pod_namespaces() { find /run/netns -name 'cni-*' -printf '%f\n' 2>/dev/null || true; }
