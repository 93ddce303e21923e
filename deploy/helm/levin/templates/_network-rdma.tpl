{{/* _network-rdma.tpl - InfiniBand or RoCE: NCCL's own verbs transport, or a plug-in of the site. NCCL pins memory,
up to the memlock limit of the container runtime. (Kubernetes gives capabilities only to processes of root, so IPC_LOCK would
have no effect.) */}}
{{- define "levin.network.rdma.env" -}}
{{- if or .Values.network.ncclPlugin .Values.network.pluginHostPath }}
- name: LD_LIBRARY_PATH
  value: /usr/local/nccl-plugin/lib64:/usr/local/nvidia/lib64
{{- end }}
- name: NCCL_SOCKET_IFNAME
  value: {{ default "eth0" .Values.network.ncclIfnames | quote }}
{{- if .Values.network.ibHca }}
- name: NCCL_IB_HCA
  value: {{ .Values.network.ibHca | quote }}
{{- end }}
{{- end }}

{{- define "levin.network.rdma.mounts" -}}
{{- if or .Values.network.ncclPlugin .Values.network.pluginHostPath }}
- name: nccl-plugin
  mountPath: /usr/local/nccl-plugin
  readOnly: true
{{- end }}
{{- end }}

{{- define "levin.network.rdma.volumes" -}}
{{- if .Values.network.ncclPlugin }}
- name: nccl-plugin
  emptyDir: {}
{{- else if .Values.network.pluginHostPath }}
- name: nccl-plugin
  hostPath:
    path: {{ .Values.network.pluginHostPath | quote }}
{{- end }}
{{- end }}

{{- define "levin.network.rdma.init" -}}
{{- if .Values.network.ncclPlugin }}
- name: nccl-plugin
  image: {{ .Values.network.ncclPlugin | quote }}
  args: [install, --install-nccl]
  securityContext:
    runAsUser: 0
    runAsNonRoot: false
  volumeMounts:
  - name: nccl-plugin
    mountPath: /var/lib/gib
{{- end }}
{{- end }}
