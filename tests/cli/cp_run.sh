# levin cp --recursive copies each checkpoint of a run once; `best` and `last` are links in the copy, too, and the copy
# resumes.
# label: user
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text
train one >/dev/null 2>&1
code 0 "$LEVIN" cp --recursive one two
check [ "$(find two -name optimizer.safetensors | wc -l)" = "$(ls -d one/checkpoints/step-* | wc -l)" ]
for name in best last; do check [ "$(readlink two/checkpoints/$name)" = "$(readlink one/checkpoints/$name)" ]; done
same_run one two
code 0 "$LEVIN" cp --recursive one two # over existing files
code 0 "$LEVIN" generate two --max-new-tokens=2 --json
code 0 train two --resume --trainer.max_steps=10
# links that lead out of the run are copied as their targets
mkdir -p folder/sub && echo text >folder/sub/a && ln -s ../folder/sub folder/far && ln -s sub folder/near
code 0 "$LEVIN" cp --recursive folder copy
check [ -f copy/far/a -a ! -L copy/far -a -L copy/near ]
same_file copy/near/a folder/sub/a
rm copy/near && mkdir copy/near
code 1 "$LEVIN" cp --recursive folder copy
says "'copy/near' is a folder, and would become another name of 'sub'" err
