{{/* _network-none.tpl - the pod's own network. Each profile is a file of these defines: environment, mounts and
capabilities of levin's container, volumes and annotations of the pod, init containers. */}}
{{- define "levin.network.none.env" -}}
{{- if .Values.network.ncclIfnames }}
- name: NCCL_SOCKET_IFNAME
  value: {{ .Values.network.ncclIfnames | quote }}
{{- end }}
{{- end }}
