{{/* What is of the cluster, whatever namespaces are watched. */}}
{{- define "portcullis.rules.cluster" -}}
# Which classes are ours.
- apiGroups: [gateway.networking.k8s.io]
  resources: [gatewayclasses]
  verbs: [get, list, watch]
# To say whether they are accepted, and which features are supported.
- apiGroups: [gateway.networking.k8s.io]
  resources: [gatewayclasses/status]
  verbs: [patch]
# Labels of namespaces decide which routes a listener and a delegating route admit.
- apiGroups: [""]
  resources: [namespaces]
  {{- with .Values.watchNamespaces }}
  resourceNames:
  {{- toYaml . | nindent 2 }}
  {{- end }}
  verbs: [get, list, watch]
# A kind is watched as soon as its definition is there. Read as metadata.
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  verbs: [get, list, watch]
# Proxies show a token when they ask for their configuration; the API server says whose it is. Reads and changes nothing.
- apiGroups: [authentication.k8s.io]
  resources: [tokenreviews]
  verbs: [create]
{{- end -}}

{{/* What is in namespaces: all, or those that are watched. */}}
{{- define "portcullis.rules.namespaced" -}}
# What routes traffic, and who may refer to what.
- apiGroups: [gateway.networking.k8s.io]
  resources: [gateways, listenersets, httproutes, grpcroutes, tlsroutes, tcproutes, udproutes, referencegrants, backendtlspolicies]
  verbs: [get, list, watch]
- apiGroups: [gateway.kgateway.dev]
  resources: [trafficpolicies, directresponses, gatewayextensions, backends, backendconfigpolicies, listenerpolicies, gatewayparameters]
  verbs: [get, list, watch]
- apiGroups: [gateway.portcullis.dev]
  resources: [rewritepolicies, delegationpolicies]
  verbs: [get, list, watch]
# To tell owners what became of their objects. Specs are never written.
- apiGroups: [gateway.networking.k8s.io]
  resources: [gateways/status, listenersets/status, httproutes/status, grpcroutes/status, tlsroutes/status, tcproutes/status, udproutes/status, backendtlspolicies/status]
  verbs: [patch]
- apiGroups: [gateway.kgateway.dev]
  resources: [trafficpolicies/status, gatewayextensions/status, backends/status, backendconfigpolicies/status, listenerpolicies/status]
  verbs: [patch]
- apiGroups: [gateway.portcullis.dev]
  resources: [rewritepolicies/status, delegationpolicies/status]
  verbs: [patch]
# Backends, and what is addressed by Gateways that proxies are deployed for.
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch]
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices]
  verbs: [get, list, watch]
# Certificates of listeners, authorities, credentials and keys of policies. Of all Secrets and ConfigMaps the metadata is watched; one that
# a Gateway, a policy or an extension names is read.
- apiGroups: [""]
  resources: [secrets, configmaps]
  verbs: [get, list, watch]
# A Gateway is programmed when a proxy of it is available.
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch]
{{- if .Values.proxy.deploy }}
# What a proxy is deployed as, beside its Gateway, by whose deletion it goes too. Watched, so that what somebody else
# changes or deletes is put right. Who may write Deployments may run pods as any ServiceAccount of their namespace:
# watchNamespaces confines that, and proxy.deploy=false takes it away. Whoever may write GatewayParameters gets none of it,
# unless gatewayParameters.trust is set: docs/install.md says who gets what.
- apiGroups: [""]
  resources: [serviceaccounts]
  verbs: [get, list, watch, create, patch, delete]
# Their bootstrap, and their address. Reading of both is granted above.
- apiGroups: [""]
  resources: [configmaps, services]
  verbs: [create, patch, delete]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [create, patch, delete]
# Those that GatewayParameters ask for.
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch, delete]
{{- if .Values.proxy.verticalPodAutoscalers }}
- apiGroups: [autoscaling.k8s.io]
  resources: [verticalpodautoscalers]
  verbs: [get, list, watch, create, patch, delete]
{{- end }}
{{- end }}
{{- end -}}

{{/* What is in the controller's own namespace. */}}
{{- define "portcullis.rules.own" -}}
# The Lease by which replicas elect the one that writes.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [portcullis]
  verbs: [get, patch]
# Should somebody delete it. A right to create cannot be confined to a name.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
# What logins are proved by: filled once, read by all replicas.
{{- if not .Values.xds.certificateSecret }}
# And the authority that proxies trust: made by the leader, rotated, read by all replicas.
{{- end }}
# And records, which outlive a process: objects that are set aside because Portcullis fails on them, what proxies refused, and since
# when trees of routes are kept.
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [portcullis-logins, portcullis-quarantine, portcullis-verdicts, portcullis-editions{{ if not .Values.xds.certificateSecret }}, portcullis-xds-authority{{ end }}]
  verbs: [get, update]
# Records are found by their label, and somebody may delete one. A right to list or to create cannot be confined to names; it
# reaches no further than this namespace, and changes nothing that is there.
- apiGroups: [""]
  resources: [secrets]
  verbs: [list, watch, create]
{{- if .Values.freeze.enabled }}
# What is kept of trees of routes is in Secrets whose names nobody knows before.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, update, delete]
{{- end }}
{{- end -}}
