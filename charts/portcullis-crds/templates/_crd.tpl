{{/*
A CRD of a file, as an object of this release. Called with the context and what is to be rendered.

Helm refuses to install what is there and not of the release, and a template that is not rendered any more is deleted, unless
it is to be kept. So a foreign CRD is not rendered, and one of ours always is: what it is annotated with says whose it is.
*/}}
{{- define "portcullis-crds.crd" -}}
{{- $crd := .crd }}
{{- $annotations := $crd.metadata.annotations | default dict }}
{{- if .context.Values.keep }}
{{- $annotations = set $annotations "helm.sh/resource-policy" "keep" }}
{{- end }}
{{- $labels := merge (dict
    "helm.sh/chart" (printf "%s-%s" .context.Chart.Name .context.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-")
    "app.kubernetes.io/name" .context.Chart.Name
    "app.kubernetes.io/instance" .context.Release.Name
    "app.kubernetes.io/managed-by" .context.Release.Service
  ) ($crd.metadata.labels | default dict) }}
{{- $_ := set $crd.metadata "labels" $labels }}
{{- if $annotations }}
{{- $_ := set $crd.metadata "annotations" $annotations }}
{{- end }}
---
{{ toYaml $crd }}
{{ end -}}

{{/* "true" where a CRD of this name is in the cluster and belongs to somebody else. */}}
{{- define "portcullis-crds.foreign" -}}
{{- $there := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" .name }}
{{- if $there }}
{{- $annotations := $there.metadata.annotations | default dict }}
{{- $name := index $annotations "meta.helm.sh/release-name" }}
{{- $namespace := index $annotations "meta.helm.sh/release-namespace" }}
{{- if not (and (eq (toString $name) .context.Release.Name) (eq (toString $namespace) .context.Release.Namespace)) -}}
true
{{- end }}
{{- end }}
{{- end -}}
