# evaluate, predict and generate on ranks that divide a model's parameters: the output of one rank, in less memory than the
# model takes; what several ranks cannot do is refused.
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text
export OMP_NUM_THREADS=1
launch=("$LEVIN" launch --launcher=levin --prefix=false)
fsdp=--trainer.strategy=fsdp
same_on_ranks() { # COMMAND MODEL [options]: standard output of one rank, and of 2 and 3 that divide the model
    code 0 "$LEVIN" "$@"
    cp out one.out
    for n in 2 3; do
        code 0 "${launch[@]}" -n $n -- "$@" $fsdp
        same_file out one.out
    done
}

# --- language models: tensors as in memory, transposed ones, adapters beside a base, 16 bits ---
keys=(--data.path=text.txt --model.n_layer=2 --model.n_head=2 --model.n_embd=80 --model.block_size=48 --trainer.batch_size=12
    --trainer.max_steps=8 --trainer.val_check_interval=0 --quiet)
code 0 "$LEVIN" train "${keys[@]}" --model.kind=gpt2 --run_dir=gpt2
code 0 "$LEVIN" train "${keys[@]}" --model.kind=llama --trainer.precision=bf16-true --run_dir=llama
code 0 "$LEVIN" train "${keys[@]:0:1}" "${keys[@]:5}" --model.init=gpt2 --lora.rank=2 --run_dir=lora
printf 'the of\nreturn -1\nx' >prompts.txt
for model in gpt2 llama lora; do
    same_on_ranks evaluate $model --json --trainer.batch_size=7 # 3 ranks do not share the batches equally
    same_on_ranks generate $model --prompt=Some --max-new-tokens=20
done
same_on_ranks evaluate gpt2 --json --trainer.limit_test_batches=1 # one batch: the other ranks only take part in gathers
same_on_ranks generate gpt2 --max-new-tokens=60 --num-samples=3   # the window slides
same_on_ranks generate gpt2 --prompts=prompts.txt --num-samples=5 --max-new-tokens=40 --stop=a --stop='of t' --top-k=9 --json
same_on_ranks generate gpt2 --prompt-ids=1,2,3 --max-new-tokens=0
# a line of more than 64 KiB, of many samples with one token each: each token of each sample needs a broadcast; launchers write
# their prefix before each block that they read, also within lines
. "$LEVIN_SOURCE/tests/cluster/mpis.bash"
many=(generate gpt2 --num-samples=3000 --max-new-tokens=1 --json)
same_on_ranks "${many[@]}"
check [ "$(wc -lc <one.out | tr -s ' ')" = " 1 $(wc -c <one.out)" ] && check [ "$(wc -c <one.out)" -gt 65536 ]
for mpi in openmpi mpich intel; do
    mpi_here $mpi || { echo "skipped $mpi, which is not installed" && continue; }
    path=$PATH
    [ $mpi != intel ] || path=$intel/bin:$PATH
    PATH=$path code 0 "$LEVIN" launch --launcher=$mpi --prefix=false -n 2 -- "${many[@]}" $fsdp
    same_file out one.out
done
{ # lines are printed as soon as they are complete; when the reader of the output is gone, the command stops
    "${launch[@]}" -n 2 -- generate gpt2 $fsdp --prompt=$'Some\nmore' --max-new-tokens=1000000 2>err || echo $? >closed
} | head -n 1 >out
check [ "$(cat out closed)" = $'Some\n141' ]
code 0 "$LEVIN" evaluate gpt2 --json
cp out one.out
for more in $fsdp --trainer.strategy=ddp --trainer.fsdp_size=2; do
    [ "$more" != --trainer.fsdp_size=2 ] || more="$more $fsdp"
    code 0 "${launch[@]}" -n 4 -- evaluate gpt2 --json $more
    same_file out one.out
done

# --- texts of many lengths ---
awk 'BEGIN { print "text\tlabel"; for (i = 0; i < 90; i++) { t = "w" i; for (k = i * 7 % 40; k; k--) t = t " of"; print t "\t" i % 3 } }' >texts.tsv
code 0 "$LEVIN" train --model.kind=bert --model.n_layer=2 --model.n_head=2 --model.n_embd=16 --model.block_size=64 --data.path=texts.tsv \
    --data.tokenizer="$LEVIN_SOURCE/tests/golden/tokenizers/tiny-bert" --trainer.batch_size=8 --trainer.max_steps=4 --quiet --run_dir=classes
same_on_ranks evaluate classes --data.path=texts.tsv --json
same_on_ranks predict classes --input=texts.tsv --json
same_on_ranks predict classes --input=texts.tsv
same_on_ranks predict classes --text='one of' # a batch for rank 0 alone
code 0 "$LEVIN" predict classes --input=texts.tsv
cp out one.out
code 0 "${launch[@]}" -n 3 -- predict classes --input=texts.tsv # the whole model on each rank
same_file out one.out

# --- memory: a limit that the whole model exceeds ---
if [ -z "${LVN_SANITIZE:-}" ]; then
    code 0 "$LEVIN" train "${keys[@]/n_embd=80/n_embd=256}" --model.kind=gpt2 --model.n_layer=30 --trainer.batch_size=2 --trainer.max_steps=1 \
        --optimizer.kind=sgd --run_dir=large
    limited() { code "$1" bash -c 'ulimit -s 1024 && ulimit -d 80000 && exec "$@"' _ "${@:2}"; }
    large=(evaluate large --trainer.limit_test_batches=2 --trainer.batch_size=2 --json)
    code 0 "$LEVIN" "${large[@]}"
    cp out one.out
    limited 1 "$LEVIN" "${large[@]}"
    one_error
    limited 0 "${launch[@]}" -n 3 -- "${large[@]}" $fsdp
    same_file out one.out
    limited 0 "${launch[@]}" -n 3 -- generate large $fsdp --max-new-tokens=3
    limited 0 "$LEVIN" export large written # one tensor at a time
    same_file written/model.safetensors large/checkpoints/last/model.safetensors
    group=/sys/fs/cgroup/memory/levin-$$-$RANDOM # auto divides a model that does not fit
    if mkdir "$group" 2>/dev/null && echo 200000000 >"$group/memory.limit_in_bytes"; then
        trap 'rmdir "$group" || true' EXIT
        for command in evaluate generate; do
            [ $command = evaluate ] || large=(generate large --max-new-tokens=3 --json)
            code 0 "$LEVIN" "${large[@]}"
            cp out one.out
            code 0 bash -c 'echo 0 >"$0/cgroup.procs" && exec "$@"' "$group" "${launch[@]}" -n 3 -- "${large[@]}"
            same_file out one.out
            says "its parameters are sharded over the 3 ranks" err
            check [ "$(sed -n 's/^oom_kill //p' "$group/memory.oom_control")" = 0 ]
        done
        code 1 bash -c 'echo 0 >"$0/cgroup.procs" && exec "$@"' "$group" "${launch[@]}" -n 3 -- "${large[@]}" --trainer.strategy=ddp
        one_error
        says "shards the parameters over ranks" err
    else
        echo "left out: a model larger than the memory of its cgroup; there are no memory cgroups (version 1) here"
    fi
fi

# --- refused ---
refused() { # SENTENCE COMMAND...
    code 2 "${launch[@]}" -n 2 -- "${@:2}"
    one_error
    says "$1" err
}
refused "each of 2 ranks has the whole model here" generate gpt2 --max-new-tokens=1
refused "each of 2 ranks has the whole model here" generate gpt2 --max-new-tokens=1 --trainer.strategy=ddp
for command in evaluate predict generate; do
    refused "trainer.strategy zero2 shards gradients or the optimizer's state, but \`levin $command\` only reads a model" \
        $command gpt2 --trainer.strategy=zero2
    refused "trainer.strategy single_device is for one rank, and 2 were started" $command gpt2 --trainer.strategy=single_device
done
refused "logits, token losses and gradients require a single rank" evaluate gpt2 $fsdp --logits --json
refused "trainer.fsdp_size 3 does not divide 2 ranks" evaluate gpt2 $fsdp --trainer.fsdp_size=3
refused "--input=- is standard input" predict classes $fsdp --input=-
refused "the prompt has the character 'é'" generate gpt2 $fsdp --prompt=é
code 1 "${launch[@]}" -n 2 -- generate gpt2 $fsdp --prompts=none.txt
one_error
says "cannot open 'none.txt'" err
code 2 env RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=1 "$LEVIN" export gpt2 written
one_error
says "\`levin export\` runs in one process, but 2 were started" err
code 0 "${launch[@]}" -n 2 -- export gpt2 written-once
says "runs once, on this machine" err
