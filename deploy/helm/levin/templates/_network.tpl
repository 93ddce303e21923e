{{/* _network.tpl - the profile's defines, by its name. */}}
{{- define "levin.network.env" -}}
{{- $p := include "levin.profile" . -}}
{{- if eq $p "tcpx" }}{{ include "levin.network.tcpx.env" . }}{{ else if eq $p "tcpxo" }}{{ include "levin.network.tcpxo.env" . }}{{ else if eq $p "rdma" }}{{ include "levin.network.rdma.env" . }}{{ else }}{{ include "levin.network.none.env" . }}{{ end }}
{{- end }}

{{- define "levin.network.mounts" -}}
{{- $p := include "levin.profile" . -}}
{{- if eq $p "tcpx" }}{{ include "levin.network.tcpx.mounts" . }}{{ else if eq $p "tcpxo" }}{{ include "levin.network.tcpxo.mounts" . }}{{ else if eq $p "rdma" }}{{ include "levin.network.rdma.mounts" . }}{{ end }}
{{- end }}

{{- define "levin.network.volumes" -}}
{{- $p := include "levin.profile" . -}}
{{- if eq $p "tcpx" }}{{ include "levin.network.tcpx.volumes" . }}{{ else if eq $p "tcpxo" }}{{ include "levin.network.tcpxo.volumes" . }}{{ else if eq $p "rdma" }}{{ include "levin.network.rdma.volumes" . }}{{ end }}
{{- end }}

{{- define "levin.network.init" -}}
{{- $p := include "levin.profile" . -}}
{{- if eq $p "tcpx" }}{{ include "levin.network.tcpx.init" . }}{{ else if eq $p "tcpxo" }}{{ include "levin.network.tcpxo.init" . }}{{ else if eq $p "rdma" }}{{ include "levin.network.rdma.init" . }}{{ end }}
{{- end }}
