# Names and addresses of the one cluster that a machine can have. Sourced.

namespace=portcullis-e2e           # of the network
node=e2e-node
run=/var/lib/portcullis-e2e        # everything that it writes, the programs' data included
socket=/run/$namespace/containerd.sock
pki=$run/pki
kubeconfig=$pki/admin.kubeconfig

# 198.51.100.0/24 is for documentation: nobody has it. The host and the node are its ends.
host_address=198.51.100.1
node_address=198.51.100.2
lb_first=198.51.100.128            # LoadBalancer Services, reached from the host too
lb_last=198.51.100.254
lb_range=198.51.100.128/25
# Known within the network namespace only.
pod_range=10.244.0.0/24
service_range=10.96.0.0/16
api_service=10.96.0.1
dns_service=10.96.0.10
api=https://$node_address:6443
