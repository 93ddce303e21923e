{{/* _check.tpl - refuses values that contradict each other, or that would train something else than they say. The
schema refuses single values and unknown keys of the recipe; the pods refuse all else that is wrong in the recipe. */}}

{{- define "levin.check" -}}
{{- include "levin.check.workload" . -}}
{{- include "levin.check.recipe" . -}}
{{- include "levin.check.places" . -}}
{{- include "levin.check.cluster" . -}}
{{- end }}

{{- define "levin.check.workload" -}}
{{- $w := .Values.workload -}}
{{- $l := .Values.logging -}}
{{- if not $w.image }}
{{- fail "workload.image is not given: name the image of levin that the pods run (deploy/Dockerfile makes it)" }}
{{- end }}
{{- if $w.configDirInBucket }}
{{- fail "workload.configDirInBucket names Python files of litgpt, which levin does not read: leave it out and write the keys that they change into recipe" }}
{{- end }}
{{- if include "levin.yes" $l.collectNsysProfile }}
{{- fail "logging.collectNsysProfile: levin's image has no Nsight Systems; set it to no" }}
{{- end }}
{{- if and $w.gcsBucket (or $w.gcsDataBucket $w.gcsExperimentBucket $l.gcsExperimentBucket) }}
{{- fail "workload.gcsBucket is the bucket of data and experiments: leave it out, or gcsDataBucket and gcsExperimentBucket" }}
{{- end }}
{{- if or (and $w.gcsExperimentBucket $l.gcsExperimentBucket) (and $w.experimentDir $l.experimentDir) (not (or (has $w.jobTimestamp (list nil "")) (has $l.jobTimestamp (list nil "")))) }}
{{- fail "gcsExperimentBucket, experimentDir and jobTimestamp belong into workload or into logging, not into both: leave one of the two out" }}
{{- end }}
{{- $t := .Values.recipe.trainer }}
{{- $batch := int (or $w.batchSize $t.batch_size_per_device (ternary 125 0 (and (not (empty $w.modelName)) (not (hasKey $t "batch_size"))))) }}
{{- $micro := int (or $w.microBatchSize $t.micro_batch_size) }}
{{- if and (gt $batch 0) (gt $micro 0) }}
{{- if gt (mod $batch $micro) 0 }}
{{- $batchName := ternary "recipe.trainer.batch_size_per_device" "workload.batchSize" (and (empty $w.batchSize) (hasKey $t "batch_size_per_device")) }}
{{- $microName := ternary "workload.microBatchSize" "recipe.trainer.micro_batch_size" (not (empty $w.microBatchSize)) }}
{{- fail (printf "%s (%d) is not a multiple of %s (%d): the first counts the sequences of an optimizer step on each device (125 for a published training), the second those that a device computes at a time; are the two swapped?" $batchName $batch $microName $micro) }}
{{- end }}
{{- end }}
{{- if or (and $w.numberOfEpochs (not $w.stepsPerEpoch)) (and $w.stepsPerEpoch (not $w.numberOfEpochs)) }}
{{- fail "workload.numberOfEpochs times workload.stepsPerEpoch is the number of optimizer steps: give both, or recipe.trainer.max_steps instead" }}
{{- end }}
{{- if and $w.modelName (not (or $w.stepsPerEpoch $t.max_steps $t.max_epochs (and $t.max_time (or (has .Values.recipe.schedule.kind (list "constant" "none" "off")) .Values.recipe.schedule.decay_steps)))) }}
{{- fail "it is not said how long to train: give workload.numberOfEpochs and workload.stepsPerEpoch (optimizer steps), or recipe.trainer.max_steps (the published trainings: 600000); recipe.trainer.max_time also needs recipe.schedule.decay_steps, or recipe.schedule.kind: constant" }}
{{- end }}
{{- $steps := int (default (include "levin.steps" .) .Values.recipe.trainer.max_steps) }}
{{- if and (gt $steps 0) (gt (int (include "levin.warmup" .)) $steps) }}
{{- fail "the warm-up is longer than the training, so that the learning rate never reaches its peak: set workload.warmupIters (optimizer steps) below numberOfEpochs times stepsPerEpoch" }}
{{- end }}
{{- end }}

{{/* A key of the recipe and a value that stands for the same key. */}}
{{- define "levin.check.recipe" -}}
{{- $w := .Values.workload -}}
{{- $r := .Values.recipe -}}
{{- if and $w.modelName (or $r.model.kind $r.model.size $r.model.init) }}
{{- fail "workload.modelName names the model, and so does recipe.model (kind, size or init): leave one of the two out" }}
{{- end }}
{{- if and $w.batchSize (or (hasKey $r.trainer "batch_size") (hasKey $r.trainer "batch_size_per_device")) }}
{{- fail "workload.batchSize is recipe.trainer.batch_size_per_device, and the recipe has a batch size as well: leave one of the two out" }}
{{- end }}
{{- if and $w.microBatchSize (or (hasKey $r.trainer "micro_batch_size") (hasKey $r.trainer "accumulate_grad_batches")) }}
{{- fail "workload.microBatchSize is recipe.trainer.micro_batch_size, and the recipe has it (or accumulate_grad_batches) as well: leave one of the two out" }}
{{- end }}
{{- if and $w.stepsPerEpoch (or (hasKey $r.trainer "max_steps") (hasKey $r.trainer "max_epochs")) }}
{{- fail "workload.numberOfEpochs and stepsPerEpoch give recipe.trainer.max_steps, and the recipe has a limit as well: leave one of the two out" }}
{{- end }}
{{- if and (not (eq $w.warmupIters nil)) (hasKey $r.schedule "warmup_steps") }}
{{- fail "workload.warmupIters is recipe.schedule.warmup_steps, and the recipe has it as well: leave one of the two out" }}
{{- end }}
{{- if or (hasKey $r.trainer "num_nodes") (hasKey $r.trainer "devices") }}
{{- fail "recipe.trainer.num_nodes and recipe.trainer.devices follow from cluster.nNodes and cluster.gpusPerNode (without GPUs cluster.ranksPerNode): leave them out of the recipe" }}
{{- end }}
{{- if eq (default "" $r.trainer.transport) "mpi" }}
{{- fail "recipe.trainer.transport: mpi needs an mpirun, and pods have none: leave it out" }}
{{- end }}
{{- if not (or $w.modelName $r.model $r.data $w.dataDir) }}
{{- fail "there is nothing to train: give workload.modelName, or a recipe with its parts model and data" }}
{{- end }}
{{- end }}

{{/* Where data come from and where the run goes. */}}
{{- define "levin.check.places" -}}
{{- $w := .Values.workload -}}
{{- $r := .Values.recipe -}}
{{- $l := .Values.logging -}}
{{- if and $w.dataDir (or $r.data.path $r.data.kind $r.data.url) }}
{{- fail "workload.dataDir names the data, and so does recipe.data (kind, path or url): leave one of the two out" }}
{{- end }}
{{- if and $w.dataDir (not (or $w.gcsDataBucket $w.gcsBucket)) }}
{{- fail "workload.dataDir is a folder of a bucket, and no bucket is given: set workload.gcsDataBucket, or workload.gcsBucket for data and experiments" }}
{{- end }}
{{- if and $w.gcsDataBucket (not $w.dataDir) }}
{{- fail "workload.gcsDataBucket is given and workload.dataDir is not: name the folder in the bucket that holds train.bin and val.bin" }}
{{- end }}
{{- if and $w.modelName (not (or $w.dataDir $r.data.path)) }}
{{- fail "it is not said where the data are: give workload.gcsDataBucket and workload.dataDir, or recipe.data.path" }}
{{- end }}
{{- $dir := or $w.experimentDir $l.experimentDir }}
{{- if and $dir $r.run_dir }}
{{- fail "experimentDir names the folder of the run, and so does recipe.run_dir: leave one of the two out" }}
{{- end }}
{{- if and $dir (not (or $w.gcsExperimentBucket $l.gcsExperimentBucket $w.gcsBucket)) }}
{{- fail "experimentDir is a folder of a bucket, and no bucket is given: set workload.gcsExperimentBucket, or workload.gcsBucket for data and experiments" }}
{{- end }}
{{- if and (or $w.gcsExperimentBucket $l.gcsExperimentBucket) (not $dir) }}
{{- fail "gcsExperimentBucket is given and workload.experimentDir is not: name the folder of the bucket that gets the run" }}
{{- end }}
{{- if not (or $dir $r.run_dir) }}
{{- fail "it is not said where the run goes, and a pod's own disk ends with it: give workload.gcsExperimentBucket and workload.experimentDir, or recipe.run_dir, as gs://BUCKET/FOLDER or s3://BUCKET/FOLDER" }}
{{- end }}
{{- if $r.run_dir }}
{{- if not (or (hasPrefix "gs://" $r.run_dir) (hasPrefix "s3://" $r.run_dir) (and (hasPrefix "/" $r.run_dir) .Values.volumeMounts)) }}
{{- fail "recipe.run_dir is a folder of the pod, whose disk ends with it: give gs://BUCKET/FOLDER or s3://BUCKET/FOLDER, or the whole path below one of volumeMounts that all pods share" }}
{{- end }}
{{- end }}
{{- range $key, $path := $r.data }}
{{- if and (kindIs "string" $path) (regexMatch "^[a-z0-9]+://[^/]*@|[?&](X-Amz-Signature|X-Goog-Signature|sig|token)=" (toString $path)) }}
{{- fail "recipe.data holds a password or a signature, which everybody who may read the job's ConfigMap could see: give the address without it, and the credential by a Secret" }}
{{- end }}
{{- if eq $key "path" "val_path" "test_path" }}
{{- if not (or (hasPrefix "gs://" $path) (hasPrefix "s3://" $path) (hasPrefix "hf://" $path) (hasPrefix "https://" $path) (hasPrefix "http://" $path) (and (hasPrefix "/" $path) $.Values.volumeMounts) $r.data.url) }}
{{- fail "recipe.data has a path on this machine, which the pods do not have: give gs://BUCKET/FOLDER, s3://, hf:// or https://, or the whole path below one of volumeMounts" }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "levin.check.cluster" -}}
{{- $c := .Values.cluster -}}
{{- $n := .Values.network -}}
{{- $gpus := int $c.gpusPerNode -}}
{{- $accelerator := default "" .Values.recipe.trainer.accelerator -}}
{{- if and (include "levin.yes" $n.useTcpx) (not (eq $n.profile "none" "tcpx")) }}
{{- fail "network.useTcpx: yes means network.profile: tcpx, and network.profile is another: leave one of the two out" }}
{{- end }}
{{- $profile := include "levin.profile" . }}
{{- if and (eq $profile "tcpx" "tcpxo") (not $n.rxdmContainer) }}
{{- fail "network.rxdmContainer is not given: the profiles tcpx and tcpxo need the image of the receive daemon" }}
{{- end }}
{{- if and (not (eq $profile "none")) (eq $gpus 0) }}
{{- fail "network.profile is about GPUs, and cluster.gpusPerNode is 0: set network.profile to none" }}
{{- end }}
{{- if and (eq $n.profile "none") (not (include "levin.yes" $n.useTcpx)) (or $n.ncclPlugin $n.rxdmContainer) }}
{{- fail "network.ncclPlugin and network.rxdmContainer belong to the profiles tcpx, tcpxo and rdma, and network.profile is none: set the profile (or useTcpx), or leave them out" }}
{{- end }}
{{- if and (include "levin.hostNetwork" .) (include "levin.no" $n.disablePmtu) }}
{{- fail "network.disablePmtu: no sets net.ipv4.tcp_mtu_probing, which pods in the node's own network may not: set it to yes, or network.hostNetwork to no" }}
{{- end }}
{{- if and (gt $gpus 0) (not (eq $c.ranksPerNode nil)) }}
{{- if not (eq (int $c.ranksPerNode) $gpus) }}
{{- fail "cluster.ranksPerNode is not cluster.gpusPerNode: a rank takes a GPU; leave it out, or set gpusPerNode to 0 to train on processors" }}
{{- end }}
{{- end }}
{{- if and (gt $gpus 0) (eq $accelerator "cpu" "reference") }}
{{- fail "recipe.trainer.accelerator is the processor, and cluster.gpusPerNode asks for GPUs: set gpusPerNode to 0, or leave the accelerator out" }}
{{- end }}
{{- if and (eq $gpus 0) (eq $accelerator "cuda" "gpu" "opencl" "xpu") }}
{{- fail "recipe.trainer.accelerator is a GPU, and cluster.gpusPerNode is 0: set gpusPerNode, or leave the accelerator out" }}
{{- end }}
{{- if and (gt $gpus 0) (eq $accelerator "") (not (eq $c.gpuResource "nvidia.com/gpu")) }}
{{- fail "cluster.gpuResource is no NVIDIA GPU: say by recipe.trainer.accelerator (opencl, xpu) how levin computes on it" }}
{{- end }}
{{- if and $c.compactPlacement (hasKey $c.affinity "podAffinity") }}
{{- fail "cluster.compactPlacement is a podAffinity, and cluster.affinity has another: leave one of the two out" }}
{{- end }}
{{- if gt (len (include "levin.name" .)) 50 }}
{{- fail "the name of the release and workload.jobTimestamp together have more than 50 letters, and names of pods are made of them: use shorter ones" }}
{{- end }}
{{- range $name, $value := .Values.env }}
{{- if eq $name "NNODES" "NODE_RANK" "GPUS_PER_NODE" "MASTER_ADDR" "MASTER_PORT" "JOB_COMPLETION_INDEX" "LEVIN_JOB_ID" "NCCL_DEBUG" "LD_LIBRARY_PATH" }}
{{- fail "env sets a variable that the chart sets (NNODES, NODE_RANK, GPUS_PER_NODE, MASTER_ADDR, MASTER_PORT, JOB_COMPLETION_INDEX, LEVIN_JOB_ID, NCCL_DEBUG or LD_LIBRARY_PATH): leave it out" }}
{{- end }}
{{- if eq $name "HF_TOKEN" "LEVIN_TOKEN" "AWS_ACCESS_KEY_ID" "AWS_SECRET_ACCESS_KEY" "AWS_SESSION_TOKEN" "GOOGLE_OAUTH_ACCESS_TOKEN" "GOOGLE_APPLICATION_CREDENTIALS" }}
{{- fail "env holds a credential, which everybody who may read the job could see: put it into a Secret and name that in secrets" }}
{{- end }}
{{- end }}
{{- end }}
