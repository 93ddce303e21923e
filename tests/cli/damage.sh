# Damaged checkpoints are named and skipped; the run resumes from the last good one with the same bits.
# label: user
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text

rm -rf one
code 0 train one --trainer.max_steps=12 --checkpoint.top_k=10
damage() { # damage HOW: of step-12, in a copy of `one`; then resume from step-8
    rm -rf two
    cp -a one two
    (cd two/checkpoints/step-12 && eval "$1")
    code 0 train two --trainer.max_steps=12 --checkpoint.top_k=10 --resume
    says "step-12" err
    silent_about "nothing to do" out
    same_run one two
    check [ "$(readlink two/checkpoints/last)" = step-12 ]
    code 0 train two --resume --trainer.max_steps=12 --checkpoint.top_k=10 # the checkpoint is complete again
    says "nothing to do" out
}
flip() { # flip FILE: one bit in the middle
    python3 -c 'import sys
with open(sys.argv[1], "r+b") as f:
    f.seek(0, 2); at = f.tell() // 2; f.seek(at); b = f.read(1); f.seek(at); f.write(bytes([b[0] ^ 1]))' "$1"
}
damage 'truncate -s -1 model.safetensors'
damage 'truncate -s 0 state/optimizer.safetensors'
damage 'flip model.safetensors'
damage 'flip state/optimizer.safetensors'
damage 'flip config.json'
damage 'rm state/state.json'
damage 'rm state/manifest.json'
damage 'rm -r state'
damage 'echo {} >state/manifest.json'
damage 'sed -i "s/\"version\": 2/\"version\": 3/" state/manifest.json' # the checksum does not match, so this is damage and not another version
# all of them damaged: they are named, and kept; a run from the beginning would remove them
rm -rf two
cp -a one two
for file in two/checkpoints/step-*/model.safetensors; do truncate -s -1 "$file"; done
code 1 train two --trainer.max_steps=12 --checkpoint.top_k=10 --resume
one_error
says "all checkpoints in 'two' are damaged; restore one from a copy, or start again with --overwrite" err
for step in 4 8 12; do says "step-$step" err; done
same_file one/metrics.csv two/metrics.csv
cp one/checkpoints/step-8/model.safetensors two/checkpoints/step-8
code 0 train two --trainer.max_steps=12 --checkpoint.top_k=10 --resume
same_run one two
# a checkpoint of another version is not damaged: it is refused, and the run does not begin again over it
rm -rf two
cp -a one two
PYTHONPATH=$LEVIN_SOURCE/tests/cli python3 -B - two/checkpoints/step-*/state/manifest.json <<'END'
import sys
from checkpoint_reader import manifest_line, xxh64
for path in sys.argv[1:]:
    with open(path) as f:
        text = f.read().replace('"version": 2', '"version": 1')
    at = text.rindex('"sum"')
    with open(path, "w") as f:
        f.write(text[:at] + f'"sum": "{xxh64(manifest_line(text).encode())}"\n}}\n')
END
code 1 train two --trainer.max_steps=12 --checkpoint.top_k=10 --resume
one_error
says "step-12/state/manifest.json: the manifest has version 1, but this levin supports version 2; use the levin that wrote it" err
same_file one/metrics.csv two/metrics.csv
check [ "$(readlink two/checkpoints/last)" = step-12 ]
rm -rf two
cp -a one two
# evaluate and generate refuse a damaged one by name
flip two/checkpoints/step-12/model.safetensors
code 1 "$LEVIN" evaluate two/checkpoints/step-12 --json
one_error
says "step-12" err
