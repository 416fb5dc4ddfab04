# The files that the programs read. Sourced.

write_configuration() {
    write_containerd >"$run/containerd.toml"
    write_cni >"$run/cni/10-e2e.conflist"
    write_kubelet >"$run/kubelet.yaml"
    write_kube_proxy >"$run/kube-proxy.yaml"
    # Of pods that do not ask the cluster's DNS: nobody answers.
    printf 'nameserver 127.0.0.1\noptions timeout:1 attempts:1\n' >"$run/resolv.conf"
}

# The scores and AppArmor are left alone, since a container in which this runs may not change them.
write_containerd() {
    cat <<X
version = 2
root = "$run/containerd"
state = "/run/$namespace/containerd"
oom_score = 0
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs", "io.containerd.internal.v1.opt",
]
[grpc]
  address = "$socket"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "e2e.local/pause:1"
  restrict_oom_score_adj = true
  disable_apparmor = true
  enable_unprivileged_ports = true
  enable_unprivileged_icmp = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$run/cni"
X
}

# Point to point instead of a bridge: what a pod sends to itself by a Service comes back without settings of the kernel.
write_cni() {
    cat <<X
{"cniVersion": "0.4.0", "name": "e2e", "plugins": [
 {"type": "ptp", "mtu": 1500, "ipMasq": false, "ipam": {"type": "host-local", "dataDir": "$run/cni-addresses",
  "ranges": [[{"subnet": "$pod_range"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
 {"type": "portmap", "capabilities": {"portMappings": true}}]}
X
}

# Nothing is evicted and no image collected: the disk belongs to others, and no image can be pulled again.
write_kubelet() {
    cat <<X
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
failSwapOn: false
cgroupDriver: cgroupfs
enforceNodeAllocatable: []
oomScoreAdj: 0
containerRuntimeEndpoint: unix://$socket
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $pki/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: $pki/kubelet-server.crt
tlsPrivateKeyFile: $pki/kubelet-server.key
clusterDomain: cluster.local
clusterDNS: [$dns_service]
resolvConf: $run/resolv.conf
evictionHard: {memory.available: 50Mi, nodefs.available: "0%", nodefs.inodesFree: "0%", imagefs.available: "0%"}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
imageMinimumGCAge: 1000h
serializeImagePulls: false
registryPullQPS: 0
eventRecordQPS: 0
kubeAPIQPS: 100
kubeAPIBurst: 200
maxPods: 200
shutdownGracePeriod: 0s
podLogsDir: $run/pod-logs
X
}

# No limits of connection tracking: they cannot be written from within a network namespace.
write_kube_proxy() {
    cat <<X
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
clusterCIDR: $pod_range
clientConnection: {kubeconfig: $pki/kube-proxy.kubeconfig, qps: 100, burst: 200}
hostnameOverride: $node
oomScoreAdj: 0
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
nodePortAddresses: ["$node_address/32"]
healthzBindAddress: 127.0.0.1:10256
metricsBindAddress: 127.0.0.1:10249
nftables: {minSyncPeriod: 100ms}
X
}
