# label: long
# SmolLM2-135M-Instruct, a GGUF file of packed tensors: loss, ids and greedy text are those of transformers 5 in fp32, which reads
# the same tensors and the same ids from that file.
. "$LEVIN_SOURCE/tests/cli/real.bash"
real_smollm2
cat >text.txt <<'END'
The licences for most software are designed to take away your freedom to share and change it. By contrast, the GNU General Public License is intended to guarantee your freedom to share and change free software--to make sure the software is free for all its users. In 1989 there were 3 of them; 127.5 % of nothing is nothing.
When we speak of free software, we are referring to freedom, not price.
END
code 0 "$LEVIN" prepare text --input=text.txt --tokenizer="$smollm2" --out=tokens --val-fraction=0 --end-token=none
code 0 "$LEVIN" evaluate "$smollm2" --data.path=tokens/train.bin --model.block_size=64 --json
says "has packed tensors (1 of type Q8_0, 210 of type Q4_1); 210 linear layers stay in their blocks, 63 MiB instead of 405 MiB in fp32" err
json 'd["tokens"] == 94 and abs(d["loss"] - 3.317365643968) < 2e-6'

printf '%s\n' "Gravity is" "The capital of France is" "In 1989 there were 3" >prompts.txt
code 0 "$LEVIN" generate "$smollm2" --prompts=prompts.txt --max-new-tokens=24 --temperature=0 --json
json '[s["ids"] for s in d["samples"]] == [
    [253, 4959, 1909, 281, 6944, 338, 6601, 260, 26589, 282, 42548, 2952, 411, 260, 4313, 282, 2631, 284, 1439, 30, 657, 506, 253, 3953],
    [7042, 30, 198, 198, 504, 2988, 314, 42, 216, 34, 32, 33, 40, 29, 32, 33, 29, 34, 34, 216, 33, 34, 42, 33],
    [28, 34, 32, 32, 28, 32, 32, 32, 701, 281, 260, 905, 30, 198, 198, 2696, 28, 1303, 506, 7529, 260, 1230, 282, 701]]'
json 'd["samples"][1]["text"].startswith(" Paris.\n")'
