{{/* _recipe.tpl - the recipe that the pods train: the keys of `recipe`, and those that other values stand for. With
workload.modelName also those of the published training of that model, as recipes/pythia-70m.yaml has them, where
`recipe` has no others. README.md has the table. */}}

{{/* Optimizer steps: numberOfEpochs times stepsPerEpoch; 0: not given. */}}
{{- define "levin.steps" -}}
{{ mul (int .Values.workload.numberOfEpochs) (int .Values.workload.stepsPerEpoch) }}
{{- end }}

{{- define "levin.warmup" -}}
{{- if not (eq .Values.workload.warmupIters nil) }}{{ int .Values.workload.warmupIters }}{{ else if hasKey .Values.recipe.schedule "warmup_steps" }}{{ int .Values.recipe.schedule.warmup_steps }}{{ else if .Values.workload.modelName }}2000{{ else }}0{{ end }}
{{- end }}

{{- define "levin.recipe" -}}
{{- $w := .Values.workload -}}
{{- $r := .Values.recipe -}}
{{- $steps := int (include "levin.steps" .) -}}
name: {{ default (include "levin.name" .) $r.name | quote }}
run_dir: {{ include "levin.runDir" . | quote }}
model:
{{- if $w.modelName }}
  kind: neox
  size: {{ $w.modelName | quote }}
{{- end }}
{{- if $r.model }}
  {{- toYaml $r.model | nindent 2 }}
{{- end }}
data:
{{- if $w.dataDir }}
  kind: tokens
  path: {{ include "levin.dataPath" . | quote }}
{{- end }}
{{- if $r.data }}
  {{- toYaml $r.data | nindent 2 }}
{{- end }}
optimizer:
{{- if $w.modelName }}
  {{- include "levin.recipe.optimizer" $r.optimizer }}
{{- end }}
{{- if $r.optimizer }}
  {{- toYaml $r.optimizer | nindent 2 }}
{{- end }}
schedule:
{{- if $w.modelName }}
  {{- include "levin.recipe.schedule" $r.schedule }}
{{- end }}
{{- if and (not (hasKey $r.schedule "warmup_steps")) (or $w.modelName (not (eq $w.warmupIters nil))) }}
  warmup_steps: {{ include "levin.warmup" . }}
{{- end }}
{{- if $r.schedule }}
  {{- toYaml $r.schedule | nindent 2 }}
{{- end }}
trainer:
  num_nodes: {{ int .Values.cluster.nNodes }}
  devices: {{ include "levin.ranks" . | quote }}
{{- if not (hasKey $r.trainer "accelerator") }}
  accelerator: {{ if gt (int .Values.cluster.gpusPerNode) 0 }}cuda{{ else }}cpu{{ end }}
{{- end }}
{{- if not (hasKey $r.trainer "start_timeout") }}
  start_timeout: 1800
{{- end }}
{{- if and (not (eq (include "levin.profile" .) "none")) (not (hasKey $r.trainer "nccl_library")) }}
  nccl_library: libnccl.so.2
{{- end }}
{{- if $w.batchSize }}
  batch_size_per_device: {{ int $w.batchSize }}
{{- end }}
{{- if $w.microBatchSize }}
  micro_batch_size: {{ int $w.microBatchSize }}
{{- end }}
{{- if gt $steps 0 }}
  max_steps: {{ $steps }}
{{- end }}
{{- if $w.modelName }}
  {{- include "levin.recipe.trainer" . }}
{{- end }}
{{- if $r.trainer }}
  {{- toYaml $r.trainer | nindent 2 }}
{{- end }}
{{- if or $w.modelName $r.checkpoint }}
checkpoint:
{{- if and $w.modelName (not (hasKey $r.checkpoint "every_n_steps")) }}
  every_n_steps: 1000
{{- end }}
{{- if $r.checkpoint }}
  {{- toYaml $r.checkpoint | nindent 2 }}
{{- end }}
{{- end }}
{{- range $part, $keys := $r }}
{{- if and $keys (not (eq $part "name" "run_dir" "model" "data" "optimizer" "schedule" "trainer" "checkpoint")) }}
{{ $part }}:
  {{- toYaml $keys | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}

{{- define "levin.recipe.optimizer" -}}
{{- if not (hasKey . "kind") }}
  kind: adamw
{{- end }}
{{- if not (hasKey . "lr") }}
  lr: 6e-4
{{- end }}
{{- if not (hasKey . "betas") }}
  betas: [0.9, 0.95]
{{- end }}
{{- if not (hasKey . "weight_decay") }}
  weight_decay: 0.1
{{- end }}
{{- if not (hasKey . "decay") }}
  decay: all
{{- end }}
{{- end }}

{{- define "levin.recipe.schedule" -}}
{{- if not (hasKey . "kind") }}
  kind: cosine
{{- end }}
{{- if not (or (hasKey . "min_lr") (has .kind (list "constant" "none" "off"))) }}
  min_lr: 6e-5
{{- end }}
{{- end }}

{{- define "levin.recipe.trainer" -}}
{{- $w := .Values.workload -}}
{{- $t := .Values.recipe.trainer -}}
{{- if not (or $w.batchSize (hasKey $t "batch_size") (hasKey $t "batch_size_per_device")) }}
  batch_size_per_device: 125
{{- if not (or $w.microBatchSize (hasKey $t "micro_batch_size") (hasKey $t "accumulate_grad_batches")) }}
  micro_batch_size: 5
{{- end }}
{{- end }}
{{- if not (hasKey $t "precision") }}
  precision: bf16-mixed
{{- end }}
{{- if not (hasKey $t "recompute") }}
  recompute: blocks
{{- end }}
{{- if not (hasKey $t "strategy") }}
  strategy: {{ if hasPrefix "transformer-" $w.modelName }}auto{{ else if gt (mul (int .Values.cluster.nNodes) (int (include "levin.ranks" .))) 1 }}zero1{{ else }}single_device{{ end }}
{{- end }}
{{- if not (hasKey $t "gradient_clip_val") }}
  gradient_clip_val: 1.0
{{- end }}
{{- if not (hasKey $t "val_check_interval") }}
  val_check_interval: 1000
{{- end }}
{{- if not (hasKey $t "limit_val_batches") }}
  limit_val_batches: 100
{{- end }}
{{- if not (hasKey $t "log_every_n_steps") }}
  log_every_n_steps: 1
{{- end }}
{{- end }}
