# What the cluster changes on the machine, and how it is as before afterwards. Sourced.

# Kubelet sets these.
kernel_settings=(vm.overcommit_memory vm.panic_on_oom kernel.panic kernel.panic_on_oops kernel.keys.root_maxkeys
    kernel.keys.root_maxbytes)

# Made by kubelet and CNI plugins, whatever folders they are given.
fixed_folders=(/var/lib/kubelet /var/log/containers /var/lib/cni)

note_host() {
    local name
    for name in "${kernel_settings[@]}"; do
        echo "$name=$(sysctl -n "$name")" >>"$run/kernel-settings"
    done
    pod_namespaces >"$run/foreign-pods"
    # `ip netns` mounts it for its first namespace and leaves it.
    mountpoint -q /run/netns || touch "$run/mounted-run-netns"
    local folder
    for folder in "${fixed_folders[@]}"; do
        [ -e "$folder" ] || echo "$folder" >>"$run/made-folders"
    done
}

restore_host() {
    [ ! -f "$run/kernel-settings" ] || xargs sysctl -qw <"$run/kernel-settings" || true
    [ ! -f "$run/made-folders" ] || xargs -r rm -rf <"$run/made-folders"
    # Shims make it. If there is a containerd of somebody else, it is not empty.
    [ ! -d /run/containerd ] || find /run/containerd -depth -type d -empty -delete
    [ ! -f "$run/mounted-run-netns" ] || umount /run/netns 2>/dev/null || true
}

# Containers, then the shims of our own socket, then what they had mounted and their cgroups.
remove_containers() {
    local id folder kind force
    if [ -S "$socket" ] && containers version >/dev/null 2>&1; then
        for kind in tasks containers; do
            # Tasks run; removing a container that has one fails.
            force=(-f)
            [ $kind = tasks ] || force=()
            containers $kind list -q |
                xargs -r -P 8 -n 1 ctr -a "$socket" -n k8s.io $kind remove "${force[@]}" >/dev/null 2>&1 || true
        done
    fi
    stop containerd
    ps -eo pid,args | awk -v socket="$socket" '$2 ~ /containerd-shim/ && index($0, socket) {print $1}' |
        while read -r id; do kill -9 "$id" 2>/dev/null || true; done
    awk -v run="$run" -v state="/run/$namespace" \
        'index($2, run "/") == 1 || index($2, state "/") == 1 {print $2}' /proc/mounts |
        sort -r | while read -r folder; do umount -l "$folder" 2>/dev/null || true; done
    for folder in /sys/fs/cgroup/*/kubepods /sys/fs/cgroup/kubepods; do
        if [ -d "$folder" ]; then find "$folder" -depth -type d -exec rmdir {} \; 2>/dev/null || true; fi
    done
}

containers() { ctr -a "$socket" -n k8s.io "$@"; }
