{{/* _pod.tpl - the specification of the Job: its pods, levin's container, volumes. job.yaml and jobset.yaml have it. */}}

{{- define "levin.jobSpec" -}}
{{- $c := .Values.cluster -}}
completions: {{ int $c.nNodes }}
parallelism: {{ int $c.nNodes }}
completionMode: Indexed
backoffLimitPerIndex: {{ int $c.backoffLimitPerIndex }}
maxFailedIndexes: 0
podReplacementPolicy: Failed
{{- if $c.activeDeadlineSeconds }}
activeDeadlineSeconds: {{ int $c.activeDeadlineSeconds }}
{{- end }}
# A pod that had to go, one that has saved and stopped (75) and one that lost the others (76) is replaced and not
# counted. What a new pod cannot cure (1, 2) ends the job.
podFailurePolicy:
  rules:
  - action: Ignore
    onPodConditions:
    - type: DisruptionTarget
      status: "True"
  - action: Ignore
    onExitCodes:
      containerName: levin
      operator: In
      values: [75, 76]
  - action: FailJob
    onExitCodes:
      containerName: levin
      operator: In
      values: [1, 2]
template:
  metadata:
    labels:
      {{- include "levin.selector" . | nindent 6 }}
      {{- if .Values.podLabels }}
      {{- toYaml .Values.podLabels | nindent 6 }}
      {{- end }}
    {{- if .Values.podAnnotations }}
    annotations:
      {{- toYaml .Values.podAnnotations | nindent 6 }}
    {{- end }}
  spec:
    {{- include "levin.podSpec" . | nindent 4 }}
{{- end }}

{{- define "levin.podSpec" -}}
{{- $c := .Values.cluster -}}
{{- $init := include "levin.network.init" . -}}
restartPolicy: Never
terminationGracePeriodSeconds: {{ int $c.terminationGracePeriodSeconds }}
{{- if eq $c.kind "job" }}
subdomain: {{ include "levin.name" . | quote }}
{{- end }}
{{- if include "levin.hostNetwork" . }}
hostNetwork: true
dnsPolicy: ClusterFirstWithHostNet
{{- end }}
{{- if $c.serviceAccountName }}
serviceAccountName: {{ $c.serviceAccountName | quote }}
{{- else }}
automountServiceAccountToken: false
{{- end }}
{{- if $c.priorityClassName }}
priorityClassName: {{ $c.priorityClassName | quote }}
{{- end }}
{{- if $c.imagePullSecrets }}
imagePullSecrets:
{{- range $c.imagePullSecrets }}
- name: {{ . | quote }}
{{- end }}
{{- end }}
{{- if or $c.nodePool $c.nodeSelector }}
nodeSelector:
  {{- if $c.nodePool }}
  {{ $c.nodePoolLabel | quote }}: {{ $c.nodePool | quote }}
  {{- end }}
  {{- if $c.nodeSelector }}
  {{- toYaml $c.nodeSelector | nindent 2 }}
  {{- end }}
{{- end }}
{{- $apart := and (gt (int $c.nNodes) 1) (not (hasKey (default dict $c.affinity) "podAntiAffinity")) }}
{{- if or $c.affinity $c.compactPlacement $apart }}
affinity:
  {{- if $c.affinity }}
  {{- toYaml $c.affinity | nindent 2 }}
  {{- end }}
  {{- if $c.compactPlacement }}
  podAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
    - topologyKey: {{ $c.compactPlacement | quote }}
      labelSelector:
        matchLabels:
          {{- include "levin.selector" . | nindent 10 }}
  {{- end }}
  {{- if $apart }}
  podAntiAffinity:
    {{- if gt (int $c.gpusPerNode) 0 }}
    requiredDuringSchedulingIgnoredDuringExecution:
    - topologyKey: kubernetes.io/hostname
      labelSelector:
        matchLabels:
          {{- include "levin.selector" . | nindent 10 }}
    {{- else }}
    preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            {{- include "levin.selector" . | nindent 12 }}
    {{- end }}
  {{- end }}
{{- end }}
{{- if or $c.tolerations (gt (int $c.gpusPerNode) 0) }}
tolerations:
{{- if gt (int $c.gpusPerNode) 0 }}
- key: {{ $c.gpuResource | quote }}
  operator: Exists
{{- end }}
{{- if $c.tolerations }}
{{- toYaml $c.tolerations | nindent 0 }}
{{- end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: {{ int $c.runAsUser }}
  runAsGroup: {{ int $c.runAsUser }}
  fsGroup: {{ int $c.runAsUser }}
  seccompProfile:
    type: RuntimeDefault
  {{- if include "levin.no" .Values.network.disablePmtu }}
  sysctls:
  - name: net.ipv4.tcp_mtu_probing
    value: "1"
  {{- end }}
{{- if $init }}
initContainers:
{{- $init | nindent 0 }}
{{- end }}
containers:
- name: levin
  {{- include "levin.container" . | nindent 2 }}
volumes:
- name: recipe
  configMap:
    name: {{ include "levin.name" . | quote }}
- name: scratch
  emptyDir:
    {{- if .Values.resources.ephemeralStorage }}
    sizeLimit: {{ .Values.resources.ephemeralStorage | quote }}
    {{- else }} {}
    {{- end }}
- name: tmp
  emptyDir: {}
- name: shm
  emptyDir:
    medium: Memory
    {{- if .Values.resources.shm }}
    sizeLimit: {{ .Values.resources.shm | quote }}
    {{- end }}
{{- if .Values.secrets.gcs }}
- name: gcs
  secret:
    secretName: {{ .Values.secrets.gcs | quote }}
    items:
    - key: key.json
      path: key.json
{{- end }}
{{- $volumes := include "levin.network.volumes" . }}
{{- if $volumes }}
{{- $volumes | nindent 0 }}
{{- end }}
{{- if .Values.volumes }}
{{- toYaml .Values.volumes | nindent 0 }}
{{- end }}
{{- end }}

{{- define "levin.container" -}}
{{- $c := .Values.cluster -}}
image: {{ .Values.workload.image | quote }}
imagePullPolicy: {{ $c.imagePullPolicy }}
command:
- levin
- launch
- --max-restarts={{ int $c.maxRestarts }}
- --
- train
- /etc/levin/recipe.yaml
{{- if include "levin.yes" .Values.workload.resume }}
- --resume
{{- end }}
workingDir: /var/lib/levin
env:
{{- include "levin.env" . | nindent 0 }}
ports:
- name: launch
  containerPort: 6002
resources:
  {{- include "levin.resources" . | nindent 2 }}
securityContext:
  readOnlyRootFilesystem: true
  allowPrivilegeEscalation: false
  capabilities:
    drop: [ALL]
volumeMounts:
- name: recipe
  mountPath: /etc/levin
  readOnly: true
- name: scratch
  mountPath: /var/lib/levin
- name: tmp
  mountPath: /tmp
- name: shm
  mountPath: /dev/shm
{{- if .Values.secrets.gcs }}
- name: gcs
  mountPath: /etc/levin-gcs
  readOnly: true
{{- end }}
{{- $mounts := include "levin.network.mounts" . }}
{{- if $mounts }}
{{- $mounts | nindent 0 }}
{{- end }}
{{- if .Values.volumeMounts }}
{{- toYaml .Values.volumeMounts | nindent 0 }}
{{- end }}
{{- end }}

{{- define "levin.resources" -}}
{{- $r := .Values.resources -}}
{{- $c := .Values.cluster -}}
limits:
  {{- include "levin.amounts" . | nindent 2 }}
requests:
  {{- include "levin.amounts" . | nindent 2 }}
  {{- if $r.cpu }}
  cpu: {{ $r.cpu | quote }}
  {{- end }}
{{- end }}

{{- define "levin.amounts" -}}
{{- $r := .Values.resources -}}
{{- $c := .Values.cluster -}}
{{- if gt (int $c.gpusPerNode) 0 }}
{{ $c.gpuResource | quote }}: {{ int $c.gpusPerNode | quote }}
{{- end }}
{{- if .Values.network.rdmaResource }}
{{ .Values.network.rdmaResource | quote }}: "1"
{{- end }}
{{- if $r.memory }}
memory: {{ $r.memory | quote }}
{{- end }}
{{- if $r.ephemeralStorage }}
ephemeral-storage: {{ $r.ephemeralStorage | quote }}
{{- end }}
{{- end }}

{{- define "levin.env" -}}
- name: NNODES
  value: {{ int .Values.cluster.nNodes | quote }}
- name: GPUS_PER_NODE
  value: {{ include "levin.ranks" . | quote }}
- name: MASTER_ADDR
  value: {{ include "levin.master" . | quote }}
- name: MASTER_PORT
  value: "6002"
- name: LEVIN_JOB_ID
  valueFrom:
    fieldRef:
      fieldPath: metadata.labels['batch.kubernetes.io/controller-uid']
- name: LEVIN_CACHE
  value: /var/lib/levin/cache
- name: HOME
  value: /var/lib/levin
{{- if .Values.logging.ncclDebugLevel }}
- name: NCCL_DEBUG
  value: {{ .Values.logging.ncclDebugLevel | quote }}
{{- end }}
{{- $network := include "levin.network.env" . }}
{{- if $network }}
{{- trimSuffix "\n" $network | nindent 0 }}
{{- end }}
{{- include "levin.secrets" . }}
{{- range $name, $value := .Values.env }}
- name: {{ $name | quote }}
  value: {{ $value | quote }}
{{- end }}
{{- end }}

{{- define "levin.secrets" -}}
{{- $s := .Values.secrets -}}
{{- if $s.gcs }}
- name: GOOGLE_APPLICATION_CREDENTIALS
  value: /etc/levin-gcs/key.json
{{- end }}
{{- if $s.s3 }}
- name: AWS_ACCESS_KEY_ID
  valueFrom:
    secretKeyRef:
      name: {{ $s.s3 | quote }}
      key: AWS_ACCESS_KEY_ID
- name: AWS_SECRET_ACCESS_KEY
  valueFrom:
    secretKeyRef:
      name: {{ $s.s3 | quote }}
      key: AWS_SECRET_ACCESS_KEY
- name: AWS_SESSION_TOKEN
  valueFrom:
    secretKeyRef:
      name: {{ $s.s3 | quote }}
      key: AWS_SESSION_TOKEN
      optional: true
{{- end }}
{{- if $s.hub }}
- name: HF_TOKEN
  valueFrom:
    secretKeyRef:
      name: {{ $s.hub | quote }}
      key: HF_TOKEN
{{- end }}
{{- if $s.token }}
- name: LEVIN_TOKEN
  valueFrom:
    secretKeyRef:
      name: {{ $s.token | quote }}
      key: LEVIN_TOKEN
{{- end }}
{{- end }}
