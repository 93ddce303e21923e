{{/* _network-tcpx.tpl - GPUDirect-TCPX of A3 High: NCCL's plug-in, and the daemon that receives for the GPUs. NCCL, of a
version that the plug-in was made for, is the site's: it is beside the plug-in or the driver. */}}
{{- define "levin.network.tcpx.env" -}}
- name: LD_LIBRARY_PATH
  value: /usr/local/tcpx/lib64:/usr/local/nvidia/lib64
- name: NCCL_NET
  value: GPUDirectTCPX_v7
- name: NCCL_SOCKET_IFNAME
  value: {{ default "eth0" .Values.network.ncclIfnames | quote }}
- name: NCCL_GPUDIRECTTCPX_CTRL_DEV
  value: {{ default "eth0" .Values.network.ncclIfnames | quote }}
- name: NCCL_GPUDIRECTTCPX_SOCKET_IFNAME
  value: eth1,eth2,eth3,eth4
- name: GPUDIRECTTCPX_SOCKET_IFNAME
  value: eth1,eth2,eth3,eth4
- name: NCCL_GPUDIRECTTCPX_UNIX_CLIENT_PREFIX
  value: /run/tcpx
- name: NCCL_CROSS_NIC
  value: "0"
- name: NCCL_ALGO
  value: Ring
- name: NCCL_PROTO
  value: Simple
- name: NCCL_NET_GDR_LEVEL
  value: PIX
- name: NCCL_P2P_PXN_LEVEL
  value: "0"
{{- end }}

{{- define "levin.network.tcpx.mounts" -}}
- name: nvidia
  mountPath: /usr/local/nvidia/lib64
  readOnly: true
- name: nccl-plugin
  mountPath: /usr/local/tcpx
  readOnly: true
- name: receive-daemon
  mountPath: /run/tcpx
{{- end }}

{{- define "levin.network.tcpx.volumes" -}}
- name: nvidia
  hostPath:
    path: {{ .Values.network.driverHostPath | quote }}
- name: nccl-plugin
{{- if .Values.network.ncclPlugin }}
  emptyDir: {}
{{- else }}
  hostPath:
    path: {{ default "/var/lib/tcpx" .Values.network.pluginHostPath | quote }}
{{- end }}
- name: receive-daemon
  emptyDir: {}
{{- end }}

{{- define "levin.network.tcpx.init" -}}
{{- if .Values.network.ncclPlugin }}
- name: nccl-plugin
  image: {{ .Values.network.ncclPlugin | quote }}
  command: [/bin/sh, -c, /scripts/container_entry.sh install --install-nccl]
  securityContext:
    runAsUser: 0
    runAsNonRoot: false
  volumeMounts:
  - name: nccl-plugin
    mountPath: /var/lib/tcpx
{{- end }}
- name: receive-daemon
  image: {{ .Values.network.rxdmContainer | quote }}
  restartPolicy: Always
  command: [/bin/sh, -c]
  args:
  - umask 0; exec /tcpgpudmarxd/build/app/tcpgpudmarxd --gpu_nic_preset a3vm --gpu_shmem_type fd --uds_path /run/tcpx --setup_param "--verbose 128 2 0"
  securityContext:
    privileged: true
    runAsUser: 0
    runAsNonRoot: false
  env:
  - name: LD_LIBRARY_PATH
    value: /usr/local/nvidia/lib64
  volumeMounts:
  - name: nvidia
    mountPath: /usr/local/nvidia/lib64
    readOnly: true
  - name: receive-daemon
    mountPath: /run/tcpx
{{- end }}
