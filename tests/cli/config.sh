# levin config: recipes from options, answers, accelerate's and nanoGPT's files; they load, and have the values of the files;
# settings without a counterpart are reported; nothing of a Python file is executed.
. "$LEVIN_SOURCE/tests/cli/common.bash"
settings() { code 0 "$LEVIN" train "$1" --show-settings --json; } # settings RECIPE
is() { json "str(d['settings']['$1']['value']) == '$2'"; }        # is KEY VALUE, of settings

# by options alone, for one machine
code 0 "$LEVIN" config small.yaml --job=chars --data.path=text.txt --trainer.max_steps=7 --model.n_embd=16 --trainer.limit_val_batches=1 --json
json 'd["recipe"] == "small.yaml" and d["hosts_file"] is None and d["launch"] == "levin train small.yaml" and d["notes"] == []'
json 'd["parameters"] > 1000 and d["rank_bytes"] > 4 * d["parameters"] and d["fits"] and d["ranks"] == 1'
settings small.yaml
is name small
is trainer.max_steps 7
is data.path text.txt
is model.n_embd 16
check [ "$(grep -c '^ *#' small.yaml)" -gt "$(grep -c '^ *[a-z_]*: ' small.yaml)" ]
make_text
code 0 "$LEVIN" train small.yaml --quiet
"$LEVIN" generate runs/small --max-new-tokens=3 >sample
check [ -s sample ]
code 2 "$LEVIN" config small.yaml --job=chars
says "exists already" err
code 0 "$LEVIN" config small.yaml --job=chars --overwrite
code 0 "$LEVIN" config tuned.yaml --job=finetune --data.path=text.txt --model.init=runs/small
says "  kind: chars" tuned.yaml # a text, not token files
code 0 "$LEVIN" config length.yaml --job=chat --model.init=runs/small
says "  max_length: 64" length.yaml # all positions of this model

# several machines: a hosts file that levin launch reads, and the command
code 0 "$LEVIN" config three.yaml --job=scratch --model.size=gpt-nano --hosts=localhost,127.0.0.1 --ranks-per-machine=2 \
    --trainer.batch_size=8 --json
json 'd["launch"] == "levin launch --hostfile three.hosts -n 4 -- train three.yaml" and d["machines"] == 2 and d["ranks"] == 4'
grep -qx 'localhost slots=2' three.hosts && grep -qx '127.0.0.1 slots=2' three.hosts || fail "$(cat three.hosts)"
settings three.yaml
is trainer.batch_size 8
for hosts in node1, ,node1 a,,b; do
    code 2 "$LEVIN" config nodes.yaml --job=scratch --model.size=gpt-nano --hosts=$hosts
    says "--hosts has a machine without a name: '$hosts'" err
done
code 0 "$LEVIN" config nodes.yaml --job=scratch --model.size=gpt-nano --machines=3
grep -qx 'node3 slots=1' nodes.hosts || fail "$(cat nodes.hosts)"
code 0 "$LEVIN" config slurm.yaml --job=scratch --model.size=gpt-nano --where=slurm --machines=4 --ranks-per-machine=2 --json
json 'd["launch"] == "levin launch --slurm slurm.yaml --nodes 4 --ntasks-per-node 2 --out slurm.sbatch && sbatch slurm.sbatch"'
code 0 "$LEVIN" launch --slurm slurm.yaml --nodes 4 --ntasks-per-node 2 --out slurm.sbatch
check [ -s slurm.sbatch ]
code 0 "$LEVIN" config memory.yaml --job=scratch --model.size=gpt2 --memory=4G --trainer.batch_size=8 --json
json 'd["micro_batch_size"] < 8 and d["rank_bytes"] < 4 * 2**30 and d["fits"]'
code 2 "$LEVIN" config little.yaml --memory='64 '
says "--memory expects the memory of a machine" err
code 0 "$LEVIN" config little.yaml --job=scratch --model.size=gpt2 --memory=100M --trainer.batch_size=8
says "MORE than is available" out

# a model that does not exist is refused, or asked for again; the time of a step, how often the data are read, classification
code 2 "$LEVIN" config gpt3.yaml --job=finetune --model.init=gpt3
says "there is no model 'gpt3'" err
check [ ! -e gpt3.yaml ]
code 0 "$LEVIN" config timed.yaml --job=chars --data.path=text.txt --trainer.batch_size=100000 --json
json 'd["step_seconds"] > 0 and 100 < d["samples"] < 100000'
says "a batch of 100000 repeats samples" err
silent_about "step takes" timed.yaml # the same answers give the same file
code 0 "$LEVIN" config timed.yaml --job=chars --data.path=text.txt --overwrite
says "a step takes a" out # about, measured; or at least, by rates, on a slow machine
says "all 2,000 steps" out
says "which the run reads" out
printf 'text,label\na,x\nb,y\nc,x\n' >table.csv
printf '%s\n' classifier gpt3 bert-base none.csv table.csv '' '' '' '' '' | code 0 "$LEVIN" config classes.yaml --ask=always --json
json 'd["job"] == "classifier" and d["samples"] == 2'
says "there is no model 'gpt3'" err
says "There is no 'none.csv'. Please answer with the path of a table" err
says 'levin predict runs/classes --text="..."' classes.yaml
settings classes.yaml
is data.kind labelled
is model.init bert-base
# conversations
echo '{"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]}' >talks.jsonl
printf '%s\n' chat '' none.jsonl talks.jsonl '' '' '' '' '' | code 0 "$LEVIN" config talk.yaml --ask=always --json
json 'd["job"] == "chat"'
says "There is no 'none.jsonl'. Please answer with the path of a file of conversations" err
says 'levin chat runs/talk' talk.yaml
settings talk.yaml
is data.kind chat
is data.path talks.jsonl
is lora.rank 16
# a size that does not exist is asked for again; no question is wider than 80 columns
printf '%s\n' scratch gpt3 gpt-nano '' '' '' '' '' '' | code 0 "$LEVIN" config sizes.yaml --ask=always --json
says "There is no size 'gpt3': \`levin help model\` lists them" err
check [ "$(wc -L <err)" -le 100 ]
settings sizes.yaml
is model.size gpt-nano

# nanoGPT: its finetune_shakespeare, and lines that are not assignments
cat >finetune.py <<'END'
import time
import os
os.mkdir("executed")
out_dir = 'out-shakespeare'
eval_interval = 5
eval_iters = 40
wandb_log = False # feel free to turn on
wandb_run_name = 'ft-' + str(time.time())
dataset = 'shakespeare'
init_from = 'gpt2'
always_save_checkpoint = False
batch_size = 1
gradient_accumulation_steps = 4 * 8
max_iters = 20
learning_rate = 3e-5
decay_lr = False
if True:
    batch_size = 7
END
code 2 "$LEVIN" config --from-nanogpt finetune.py --job=classifier
says "--job is classifier, and the file of --from-nanogpt, 'finetune.py', describes finetune: leave --job out" err
code 0 "$LEVIN" config --from-nanogpt finetune.py --json
check [ ! -e executed ]
json 'd["job"] == "finetune" and d["parameters"] == 124439808 and d["recipe"] == "finetune.yaml"'
cp out said
for text in wandb_log 'import time' 'os.mkdir' 'batch_size = 7' wandb_run_name; do says "$text" said; done
settings finetune.yaml
is model.init gpt2
is data.path data/shakespeare
is data.sampling random
is trainer.batch_size 32
is trainer.max_steps 20
is trainer.limit_val_batches 2
is trainer.val_check_interval 5
is optimizer.lr 3e-05
is optimizer.betas '[0.9, 0.95]'
is schedule.kind constant
is checkpoint.every_n_steps 0
is run_dir out-shakespeare
is model.dropout 0
says "finetune.py:10" finetune.yaml

printf 'n_layer = n = 3\n' >nothing.py # all other keys have nanoGPT's defaults
code 0 "$LEVIN" config --from-nanogpt nothing.py --memory=64G
settings nothing.yaml
for pair in model.n_layer=12 model.n_embd=768 model.bias=False model.block_size=1024 trainer.batch_size=480 optimizer.lr=0.0006 \
    schedule.warmup_steps=2000 schedule.decay_steps=600000 schedule.min_lr=6e-05 trainer.max_steps=600000 \
    trainer.limit_val_batches=5 data.path=data/openwebtext; do is "${pair%%=*}" "${pair#*=}"; done
printf 'dataset = "shakespeare_char"\nn_layer = 2\nn_head = 2\nn_embd = 32\nblock_size = 16\nbeta2 = 0.99\ngradient_accumulation_steps = 1\n' >char.py
code 0 "$LEVIN" config --from-nanogpt char.py --json
json 'd["job"] == "chars"'
settings char.yaml
is data.kind chars
is optimizer.betas '[0.9, 0.99]'
is trainer.batch_size 12
printf 'init_from = "gpt3"\n' >bad.py
code 2 "$LEVIN" config --from-nanogpt bad.py
says "bad.py:1: init_from is scratch, resume or one of gpt2" err
printf 'batch_size = "many"\n' >bad.py
code 2 "$LEVIN" config --from-nanogpt bad.py
says "bad.py:1: batch_size must be a number" err
printf 'x = """many\n' >bad.py
code 1 "$LEVIN" config --from-nanogpt bad.py
says "bad.py:1: unterminated string" err
check [ ! -e bad.yaml ]

# accelerate: what its questionnaire writes for CPUs
cat >acc.yaml <<'END'
compute_environment: LOCAL_MACHINE
debug: false
distributed_type: MULTI_CPU
downcast_bf16: 'no'
enable_cpu_affinity: false
ipex_config:
  ipex: true
  use_xpu: false
machine_rank: 1
main_process_ip: 192.168.1.1
main_process_port: 29500
main_training_function: main
mixed_precision: 'no'
mpirun_config:
  mpirun_ccl: '1'
  mpirun_hostfile: my.hosts
num_machines: 3
num_processes: 6
rdzv_backend: static
same_network: true
tpu_env: []
tpu_use_cluster: false
tpu_use_sudo: false
use_cpu: true
END
code 0 "$LEVIN" config acc-run.yaml --from-accelerate acc.yaml --json
json 'd["machines"] == 3 and d["ranks"] == 6 and d["hosts_file"] == "acc-run.hosts"'
json '{"machine_rank", "main_process_ip", "ipex_config", "mpirun_hostfile"} <= {n["key"] for n in d["notes"]}'
json 'not {"tpu_env", "use_cpu", "debug", "num_machines"} & {n["key"] for n in d["notes"]}'
printf 'a\nb\nc\n' >my.hosts
code 0 "$LEVIN" config acc-run.yaml --from-accelerate acc.yaml --overwrite --json
json '"--hostfile my.hosts -n 6" in d["launch"] and d["hosts_file"] is None'
settings acc-run.yaml
is trainer.precision 32-true
is trainer.accelerator cpu
code 0 "$LEVIN" config both.yaml --from-accelerate acc.yaml --from-nanogpt finetune.py --json
json 'd["ranks"] == 6 and {"machine_rank", "wandb_log"} <= {n["key"] for n in d["notes"]}'
sed "s/mixed_precision: 'no'/mixed_precision: bf16/" acc.yaml >bf16.acc
code 0 "$LEVIN" config bf16.yaml --from-accelerate bf16.acc
settings bf16.yaml
is trainer.precision bf16-mixed
says "bf16.acc:13" bf16.yaml
sed "s/mixed_precision: 'no'/mixed_precision: fp8/" acc.yaml >fp8.acc
code 0 "$LEVIN" config fp8.yaml --from-accelerate fp8.acc --json
json '"mixed_precision" in {n["key"] for n in d["notes"]}'
printf 'dtype = "float16"\ndevice = "cuda:1"\n' >half.py
code 0 "$LEVIN" config --from-nanogpt half.py --json
json 'not {"dtype", "device"} & {n["key"] for n in d["notes"]}'
settings half.yaml
is trainer.precision 16-mixed
is trainer.accelerator cuda
is trainer.devices 1,
printf 'dtype = "float16"\ndevice = "mps"\n' >mps.py # mps is not supported, so no GPU is named
code 0 "$LEVIN" config --from-nanogpt mps.py --json
json '{"dtype", "device"} <= {n["key"] for n in d["notes"]}'
settings mps.yaml
is trainer.precision bf16-mixed
is trainer.accelerator auto
printf 'distributed_type: MULTI_GPU\nmixed_precision: fp16\ngpu_ids: 0,2\nuse_cpu: false\nnum_processes: 2\n' >gpu.acc
code 0 "$LEVIN" config gpu.yaml --from-accelerate gpu.acc --json
json 'd["notes"] == []'
settings gpu.yaml
is trainer.precision 16-mixed
is trainer.accelerator cuda
is trainer.devices 0,2
many=$(seq -s, 0 63) # a long list is complete; a list without a counterpart is reported
printf 'distributed_type: MULTI_GPU\ngpu_ids: %s\nnum_processes: 64\n' "$many" >many.acc
code 0 "$LEVIN" config many.yaml --from-accelerate many.acc --trainer.batch_size=64 --json
settings many.yaml
is trainer.devices "$many"
printf 'distributed_type: MULTI_GPU\ngpu_ids: [0, 2]\nnum_processes: 2\n' >list.acc
code 0 "$LEVIN" config list.yaml --from-accelerate list.acc --json
json '[n["key"] for n in d["notes"]] == ["gpu_ids"]'
printf 'distributed_type: DEEPSPEED\ndeepspeed_config: {gradient_clipping: [1.0], gradient_accumulation_steps: {a: 4}}\n' >list.acc
code 0 "$LEVIN" config lists.yaml --from-accelerate list.acc --json
json '[n["key"] for n in d["notes"]] == ["gradient_clipping", "gradient_accumulation_steps"]'
printf 'distributed_type: DEEPSPEED\ndeepspeed_config: {deepspeed_config_file: ds.json, zero3_init_flag: true}\n' >file.acc
code 0 "$LEVIN" config file.yaml --from-accelerate file.acc --json
json 'sorted(n["key"] for n in d["notes"]) == ["deepspeed_config_file", "zero3_init_flag"]'
settings file.yaml
is trainer.strategy auto
printf 'distributed_type: DEEPSPEED\ndeepspeed_config: {gradient_clipping: auto, zero_stage: 2, offload_param_device: cpu, offload_optimizer_device: none, more: 1}\n' >auto.acc
code 0 "$LEVIN" config auto.yaml --from-accelerate auto.acc --json
json 'sorted(n["key"] for n in d["notes"]) == ["gradient_clipping", "more", "offload_param_device"]'
settings auto.yaml
is trainer.gradient_clip_val 1
printf 'distributed_type: FSDP\nfsdp_config: {fsdp_offload_params: true, fsdp_state_dict_type: SHARDED_STATE_DICT, fsdp_activation_checkpointing: false}\n' >offload.acc
code 0 "$LEVIN" config offload.yaml --from-accelerate offload.acc --json
json 'sorted(n["key"] for n in d["notes"]) == ["fsdp_offload_params", "fsdp_state_dict_type"]'
printf 'distributed_type: DEEPSPEED\ndeepspeed_config: {deepspeed_config_file: x%s.json}\n' "$(printf 'ä%.0s' $(seq 150))" >cut.acc # its note is cut within a character
code 0 "$LEVIN" config cut.yaml --from-accelerate cut.acc --json
json '[n["key"] for n in d["notes"]] == ["deepspeed_config_file"]'
printf 'distributed_type: "NO"\nmixed_precision: fp16\ngpu_ids: all\nuse_cpu: true\nnum_processes: 1\n' >cpu.acc
code 0 "$LEVIN" config cpu.yaml --from-accelerate cpu.acc --json
json '[n["key"] for n in d["notes"]] == ["mixed_precision"]'
settings cpu.yaml
is trainer.precision bf16-mixed
is trainer.accelerator cpu
printf 'distributed_type: FSDP\nfsdp_config: {fsdp_activation_checkpointing: true, fsdp_reshard_after_forward: false}\nnum_processes: 2\nnew_key: 1\n' >fsdp.acc
code 0 "$LEVIN" config fsdp.yaml --from-accelerate fsdp.acc --json
json '"levin launch -n 2" in d["launch"] and "new_key" in {n["key"] for n in d["notes"]}'
settings fsdp.yaml
is trainer.strategy fsdp
is trainer.fsdp_reshard False
is trainer.recompute blocks
for words in "DEEPSPEED\ndeepspeed_config: {zero_stage: 1}=zero1" "DEEPSPEED\ndeepspeed_config: {zero_stage: 2}=zero2" \
    "DEEPSPEED\ndeepspeed_config: {zero_stage: 3}=fsdp" "FSDP\nfsdp_config: {fsdp_sharding_strategy: HYBRID_SHARD}=fsdp" "FSDP\nfsdp_config: {fsdp_sharding_strategy: NO_SHARD}=ddp" \
    "FSDP\nfsdp_config: {fsdp_version: 1, fsdp_reshard_after_forward: SHARD_GRAD_OP}=zero2" "FSDP\nfsdp_config: {fsdp_sharding_strategy: 3}=ddp" \
    "FSDP\nfsdp_config: {fsdp_sharding_strategy: 4}=fsdp" "FSDP\nfsdp_config: {fsdp_sharding_strategy: 5}=fsdp" \
    "FSDP\nfsdp_config: {fsdp_reshard_after_forward: HYBRID_SHARD}=fsdp" "FSDP\nfsdp_config: {fsdp_reshard_after_forward: true}=fsdp"; do
    printf "distributed_type: ${words%=*}\nnum_processes: 2\n" >shards.acc
    code 0 "$LEVIN" config shards.yaml --from-accelerate shards.acc --json
    json "any('set trainer.fsdp_size' in n['note'] for n in d['notes']) == $([[ $words =~ HYBRID|"strategy: "[45] ]] && echo True || echo False)"
    settings shards.yaml
    is trainer.strategy "${words#*=}"
    rm shards.yaml
done
printf 'num_machines: 2\nnum_processes: 3\n' >odd.acc
code 2 "$LEVIN" config odd.yaml --from-accelerate odd.acc
says "not a multiple of num_machines (2)" err
code 2 "$LEVIN" config odd.yaml --from-accelerate small.yaml
says "is not a file of accelerate" err

# questions and answers: bad ones are asked again, empty ones take the default
printf '%s\n' 9 scratch gpt-nano tokens hosts 'n1, n2,n3' 1 32 '' -5 6 500 1e-3 |
    code 0 "$LEVIN" config asked.yaml --ask=always --json
json 'd["job"] == "scratch" and d["machines"] == 3 and "asked.hosts -n 3" in d["launch"]'
says "Please answer with one of the numbers" err
says "trainer.batch_size must be at least 0" err
settings asked.yaml
is model.size gpt-nano
is data.path tokens
is trainer.max_steps 500
is optimizer.lr 0.001
printf '%s\n' chars nothing.txt text.txt '' '' '' '' '' '' | code 0 "$LEVIN" config there.yaml --ask=always --json
says "There is no 'nothing.txt'" err
settings there.yaml
is data.path text.txt
printf '2\n' | code 2 "$LEVIN" config more.yaml --ask=always
says "ended before all questions were answered" err
check [ ! -e more.yaml ]

printf '\n' | code 2 "$LEVIN" config asked.yaml --ask=always # before any question
says "'asked.yaml' exists already" err
silent_about "What do you want to do" err
# empty answers give a recipe that runs: its text is downloaded, or exists
mkdir enter && cp text.txt enter/other.txt
printf '\n%.0s' {1..20} | (cd enter && code 0 "$LEVIN" config --ask=always --json && json 'd["job"] == "chars" and d["recipe"] == "chars.yaml"')
grep -q '  url: .*tinyshakespeare' enter/chars.yaml && grep -q '  sha256: 86c4e6aa' enter/chars.yaml || fail "the text would not come by itself"
mkdir enter/data && cp text.txt enter/data/tinyshakespeare.txt
(cd enter && code 0 "$LEVIN" train chars.yaml --trainer.max_steps=2 --trainer.limit_val_batches=1)
printf '\n%.0s' {1..20} | (cd enter && code 2 "$LEVIN" config --ask=always && says "'chars.yaml' exists already" err)
# another text is not downloaded
(cd enter && code 0 "$LEVIN" config mine.yaml --job=chars --data.path=other.txt)
! grep -q '  url: .*tiny' enter/mine.yaml || fail "tinyshakespeare would be fetched into other.txt"

code 2 "$LEVIN" config x.yaml --job=sleep
says "--job must be finetune, scratch, chars, classifier or chat" err
code 2 "$LEVIN" config x.yaml --memory=999999999999999T
says "--memory expects the memory of a machine" err
code 2 "$LEVIN" config x.yaml --memory=much
says "--memory expects" err
code 2 "$LEVIN" config x.yaml --hosts=a,b --machines=3
says "differ" err
code 2 "$LEVIN" config x.yaml --hosts=ab,a,b,a
says "--hosts names 'a' twice" err
code 2 "$LEVIN" config x.yaml --hosts=a,b --where=slurm
says "--hosts names machines" err
code 2 "$LEVIN" config x.yaml --machines=100 --job=chars
says "100 ranks cannot share the 12 sequences" err
code 2 "$LEVIN" config x.yaml --optimizer.lr=-1
says "optimizer.lr" err
code 2 "$LEVIN" config x.yaml --job=chars --model.n_head=3
says "n_embd" err
check [ ! -e x.yaml ]
