{{/* _names.tpl - what several manifests name: the job, its network, its folders. */}}

{{/* "yes" for yes and true, "" for all else. */}}
{{- define "levin.yes" -}}
{{- if kindIs "bool" . }}{{ if . }}yes{{ end }}{{ else if eq (default "" .) "yes" }}yes{{ end }}
{{- end }}

{{/* "yes" for no and false. */}}
{{- define "levin.no" -}}
{{- if kindIs "bool" . }}{{ if not . }}yes{{ end }}{{ else if eq (default "" .) "no" }}yes{{ end }}
{{- end }}

{{- define "levin.timestamp" -}}
{{- $t := .Values.workload.jobTimestamp -}}
{{- if has $t (list nil "") }}{{ $t = .Values.logging.jobTimestamp }}{{ end -}}
{{- if not (has $t (list nil "")) }}{{ if kindIs "string" $t }}{{ $t }}{{ else }}{{ int $t }}{{ end }}{{ end }}
{{- end }}

{{- define "levin.name" -}}
{{- $t := include "levin.timestamp" . -}}
{{ .Release.Name }}{{ if $t }}-{{ $t }}{{ end }}
{{- end }}

{{/* The first pod by name, of which the headless service knows the address. */}}
{{- define "levin.master" -}}
{{- $name := include "levin.name" . -}}
{{ $name }}{{ if eq .Values.cluster.kind "jobset" }}-node-0{{ end }}-0.{{ $name }}
{{- end }}

{{- define "levin.profile" -}}
{{ if include "levin.yes" .Values.network.useTcpx }}tcpx{{ else }}{{ .Values.network.profile }}{{ end }}
{{- end }}

{{- define "levin.hostNetwork" -}}
{{- $given := .Values.network.hostNetwork -}}
{{- if include "levin.yes" $given }}yes{{ else if not (include "levin.no" $given) }}{{ if eq (include "levin.profile" .) "tcpx" "tcpxo" }}yes{{ end }}{{ end }}
{{- end }}

{{/* Ranks of a pod. */}}
{{- define "levin.ranks" -}}
{{- $gpus := int .Values.cluster.gpusPerNode -}}
{{ if gt $gpus 0 }}{{ $gpus }}{{ else }}{{ int (default 1 .Values.cluster.ranksPerNode) }}{{ end }}
{{- end }}

{{- define "levin.dataPath" -}}
{{- $bucket := or .Values.workload.gcsDataBucket .Values.workload.gcsBucket -}}
{{- if .Values.workload.dataDir }}gs://{{ $bucket }}/{{ trimSuffix "/" .Values.workload.dataDir }}{{ else }}{{ .Values.recipe.data.path }}{{ end }}
{{- end }}

{{- define "levin.runDir" -}}
{{- $bucket := or .Values.workload.gcsExperimentBucket .Values.logging.gcsExperimentBucket .Values.workload.gcsBucket -}}
{{- $dir := or .Values.workload.experimentDir .Values.logging.experimentDir -}}
{{- $t := include "levin.timestamp" . -}}
{{- if $dir }}gs://{{ $bucket }}/{{ trimSuffix "/" $dir }}{{ if $t }}/{{ $t }}{{ end }}{{ else }}{{ .Values.recipe.run_dir }}{{ end }}
{{- end }}

{{- define "levin.selector" -}}
app.kubernetes.io/name: levin
app.kubernetes.io/instance: {{ include "levin.name" . | quote }}
{{- end }}

{{- define "levin.labels" -}}
{{ include "levin.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- if .Values.cluster.queue }}
kueue.x-k8s.io/queue-name: {{ .Values.cluster.queue | quote }}
{{- end }}
{{- end }}
