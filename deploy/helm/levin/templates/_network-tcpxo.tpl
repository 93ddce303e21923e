{{/* _network-tcpxo.tpl - GPUDirect-TCPXO of A3 Mega: as tcpx, with another daemon and other variables. Without
network.ncclPlugin and network.pluginHostPath the plug-in is beside the driver. */}}
{{- define "levin.network.tcpxo.env" -}}
- name: LD_LIBRARY_PATH
  value: /usr/local/fastrak/lib64:/usr/local/nvidia/lib64
- name: NCCL_SOCKET_IFNAME
  value: {{ default "eth0" .Values.network.ncclIfnames | quote }}
- name: NCCL_FASTRAK_CTRL_DEV
  value: {{ default "eth0" .Values.network.ncclIfnames | quote }}
- name: NCCL_FASTRAK_IFNAME
  value: eth1,eth2,eth3,eth4,eth5,eth6,eth7,eth8
- name: NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY
  value: /dev/aperture_devices
- name: NCCL_FASTRAK_USE_LLCM
  value: "1"
- name: NCCL_FASTRAK_USE_SNAP
  value: "1"
- name: NCCL_FASTRAK_NUM_FLOWS
  value: "2"
- name: NCCL_FASTRAK_ENABLE_CONTROL_CHANNEL
  value: "0"
- name: NCCL_FASTRAK_ENABLE_HOTPATH_LOGGING
  value: "0"
- name: NCCL_FASTRAK_PLUGIN_ACCEPT_TIMEOUT_MS
  value: "600000"
- name: NCCL_CROSS_NIC
  value: "0"
- name: NCCL_ALGO
  value: Ring,Tree
- name: NCCL_PROTO
  value: Simple
- name: NCCL_MIN_NCHANNELS
  value: "4"
- name: NCCL_BUFFSIZE
  value: "8388608"
- name: NCCL_DYNAMIC_CHUNK_SIZE
  value: "524288"
- name: NCCL_P2P_NET_CHUNKSIZE
  value: "524288"
- name: NCCL_P2P_PCI_CHUNKSIZE
  value: "524288"
- name: NCCL_P2P_NVL_CHUNKSIZE
  value: "1048576"
- name: NCCL_NET_GDR_LEVEL
  value: PIX
- name: NCCL_NVLS_ENABLE
  value: "0"
{{- end }}

{{- define "levin.network.tcpxo.mounts" -}}
- name: nvidia
  mountPath: /usr/local/nvidia/lib64
  readOnly: true
- name: aperture-devices
  mountPath: /dev/aperture_devices
{{- if or .Values.network.ncclPlugin .Values.network.pluginHostPath }}
- name: nccl-plugin
  mountPath: /usr/local/fastrak
  readOnly: true
{{- end }}
{{- end }}

{{- define "levin.network.tcpxo.volumes" -}}
- name: nvidia
  hostPath:
    path: {{ .Values.network.driverHostPath | quote }}
- name: aperture-devices
  hostPath:
    path: /dev/aperture_devices
- name: sys
  hostPath:
    path: /sys
- name: proc-sys
  hostPath:
    path: /proc/sys
{{- if .Values.network.ncclPlugin }}
- name: nccl-plugin
  emptyDir: {}
{{- else if .Values.network.pluginHostPath }}
- name: nccl-plugin
  hostPath:
    path: {{ .Values.network.pluginHostPath | quote }}
{{- end }}
{{- end }}

{{- define "levin.network.tcpxo.init" -}}
{{- if .Values.network.ncclPlugin }}
- name: nccl-plugin
  image: {{ .Values.network.ncclPlugin | quote }}
  args: [install, --install-nccl]
  securityContext:
    runAsUser: 0
    runAsNonRoot: false
  volumeMounts:
  - name: nccl-plugin
    mountPath: /var/lib/fastrak
{{- end }}
- name: receive-daemon
  image: {{ .Values.network.rxdmContainer | quote }}
  restartPolicy: Always
  command: [/bin/sh, -c]
  args:
  - umask 0; chmod 755 /fts/entrypoint_rxdm_container.sh; exec /fts/entrypoint_rxdm_container.sh --num_hops=2 --num_nics=8 --uid= --alsologtostderr
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
  - name: sys
    mountPath: /hostsysfs
  - name: proc-sys
    mountPath: /hostprocsysfs
{{- end }}
