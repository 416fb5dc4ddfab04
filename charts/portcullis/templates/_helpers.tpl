{{- define "portcullis.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "portcullis.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "portcullis.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What is of the cluster has the namespace in its name, so that two releases do not share it. */}}
{{- define "portcullis.clusterName" -}}
{{- printf "%s:%s" .Release.Namespace (include "portcullis.fullname" .) -}}
{{- end -}}

{{- define "portcullis.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "portcullis.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{- define "portcullis.selectorLabels" -}}
app.kubernetes.io/name: {{ include "portcullis.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "portcullis.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "portcullis.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "portcullis.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{- printf "%s@%s" .repository .digest -}}
{{- else -}}
{{- printf "%s:%s" .repository (.tag | default $.Chart.AppVersion) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* How proxies reach the controller. */}}
{{- define "portcullis.xdsAddress" -}}
{{- .Values.xds.address | default (printf "%s.%s.svc.%s:9977" (include "portcullis.fullname" .) .Release.Namespace .Values.xds.clusterDomain) -}}
{{- end -}}

{{/* The settings file: docs/settings.md. */}}
{{- define "portcullis.settings" -}}
controllerName: {{ .Values.controllerName | quote }}
# Proxies may not bind a port below 1024; their Services map it.
ports: mapped
{{- range $group := list "edge" "backend" "invalidRouteReplacement" "delegation" "policies" "gatewayParameters" "regex" "capacity" "validation" "freeze" }}
{{- /* The container that judges is no setting. */}}
{{- with omit (index $.Values $group) "judge" }}
{{ $group }}:
  {{- range $key, $value := . }}
  {{- /* A number of a values file is a float to a template, which would write 1e+06. */}}
  {{ $key }}: {{ toJson $value }}
  {{- end }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Whether an Envoy judges what would be sent: "true", or nothing. */}}
{{- define "portcullis.strict" -}}
{{- if eq (lower (default "" .Values.validation.level)) "strict" }}true{{ end -}}
{{- end -}}

{{/* Whether an Envoy runs beside the controller that judges: "true", or nothing. */}}
{{- define "portcullis.judge" -}}
{{- if or (include "portcullis.strict" .) (dig "judge" "enabled" false .Values.validation) }}true{{ end -}}
{{- end -}}

{{/* What a ServiceMonitor and a PodMonitor have in common. */}}
{{- define "portcullis.scrape" -}}
interval: {{ .interval }}
{{- with .scrapeTimeout }}
scrapeTimeout: {{ . }}
{{- end }}
{{- with .relabelings }}
relabelings:
{{ toYaml . }}
{{- end }}
{{- with .metricRelabelings }}
metricRelabelings:
{{ toYaml . }}
{{- end }}
{{- end -}}
