# A model or tokenizer by name is looked up in this order: a path (~/ too), a run, a published model, ORG/NAME of the
# hub.
# label: user
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text
golden=$LEVIN_SOURCE/tests/golden
export HF_HOME=$PWD/cache HF_HUB_OFFLINE=1
loss() { code 0 "$LEVIN" evaluate "$1" --data.kind=chars --data.path=text.txt --json --trainer.limit_test_batches=2 --trainer.batch_size=4 && value loss; }
train runs/mine --trainer.max_steps=2 >/dev/null 2>&1
train runs/other --trainer.max_steps=2 --trainer.seed=5 >/dev/null 2>&1
mine=$(loss runs/mine)
other=$(loss runs/other)
check [ "$mine" != "$other" ]

# a run by its name, with every option that takes a model; a path takes precedence
check [ "$(loss mine)" = "$mine" ]
code 0 "$LEVIN" generate mine --prompt=the --max-new-tokens=2 --json
code 0 "$LEVIN" export mine here
code 0 train again --model.init=mine --trainer.max_steps=1
"$LEVIN" export other mine >/dev/null
check [ "$(loss mine)" = "$other" ]
rm -r mine
mkdir mine && : >mine/notes # a folder that is not a model does not count
check [ "$(loss mine)" = "$mine" ]

# ~/ is the home folder also where no shell expands it: in keys, recipes and flags
mkdir home
cp text.txt home
echo 'data: {path: ~/text.txt}' >recipe.yaml
HOME=$PWD/home code 0 "$LEVIN" train recipe.yaml "${tiny[@]/--data.path=text.txt/--name=tilde}" --run_dir='~/run' --model.init='~/../runs/mine' --trainer.max_steps=1
check test -d home/run/checkpoints
check test ! -e '~'
HOME=$PWD/home code 0 "$LEVIN" generate '~/run' --max-new-tokens=2 --prompt='FILE:~/text.txt' --json

# a name that is not UTF-8 is refused before the run begins: its settings.yaml could not record it
cp text.txt $'text\xff.txt'
for arguments in $'--data.path=text\xff.txt' $'text\xff.txt'; do
    code 2 "$LEVIN" train "$arguments" --run_dir=latin
    one_error
    says "byte 5 of data.path (command line) is not UTF-8, so the run could not be resumed: its settings.yaml cannot record the value; rename the file or folder" err
    check [ ! -e latin ]
done
LEVIN_DATA_PATH=$'text\xff.txt' code 2 "$LEVIN" train --run_dir=latin
says "byte 5 of data.path (LEVIN_DATA_PATH) is not UTF-8" err
mkdir $'home\xff' # the value is checked with the home folder in it
cp text.txt $'home\xff'
HOME=$PWD/$'home\xff' code 2 "$LEVIN" train --data.path='~/text.txt' --run_dir=latin
says "of data.path (command line) is not UTF-8" err
cp text.txt wörter.txt
code 0 "$LEVIN" train "${tiny[@]/--data.path=text.txt/--data.path=wörter.txt}" --run_dir=$'run\xff' --trainer.max_steps=1 # the folder of a run is never read from there
code 0 "$LEVIN" train $'run\xff' --resume --trainer.max_steps=2
code 0 "$LEVIN" evaluate $'run\xff'

# the hub's names, and its cache
code 1 "$LEVIN" evaluate some-lab/some-model --data.path=text.txt
one_error
says "fetching the model 'some-lab/some-model' from the Hugging Face hub: there is no such path here, no run 'runs/some-lab/some-model', and it is not in the hub's cache on this machine ('$PWD/cache/hub')" err
hub=cache/hub/models--some-lab--some-model
mkdir -p $hub/refs $hub/snapshots
printf 0123abc >$hub/refs/main
cp -r here $hub/snapshots/0123abc
check [ "$(loss some-lab/some-model)" = "$mine" ]
code 2 "$LEVIN" evaluate nowhere --data.path=text.txt
one_error
says "there is no model 'nowhere': no such path, no run 'runs/nowhere', and no published model of this name" err
code 2 "$LEVIN" evaluate runs/nowhere --data.path=text.txt
one_error
says "there is no model 'runs/nowhere': no such run" err
mkdir empty && cd empty # without a folder runs/, too, this is a path and no name of the hub
code 2 "$LEVIN" evaluate runs/nowhere --data.path=../text.txt
says "there is no model 'runs/nowhere': no such run" err
cd ..

# misspelled names: published models, and runs of the current folder
suggests() { # suggests NAME ARGS...
    code 2 "$LEVIN" "${@:2}"
    says "; did you mean '$1'?" err
}
for name in gtp2 GPT2 gpt-2; do suggests gpt2 generate $name; done
suggests bert-base generate bert-base-uncased
suggests gpt2 tokenize --tokenizer=GPT2 </dev/null
mkdir -p runs/worded
for command in "train wroded --resume" "train runs/wroded --resume" "watch wroded" "report wroded" "runs wroded" "generate wroded"; do
    suggests worded $command
done
touch runs/worded/settings.yaml # a run that has saved nothing yet
code 1 "$LEVIN" generate worded
says "'runs/worded' has neither a checkpoint nor a config.json" err
rm -r runs/worded
for name in "$PWD/nowhere" ./nowhere ~/nowhere; do # a path and nothing else
    code 2 "$LEVIN" evaluate "$name" --data.path=text.txt
    one_error
    says "there is no model '$name': no such file or folder" err
done

# tokenizers in the same way
cp -r "$golden/tokenizers/tiny-gpt2" words
want=$(echo "one two" | "$LEVIN" tokenize --tokenizer=words)
echo "one two" | HOME=$PWD code 0 "$LEVIN" tokenize --tokenizer='~/words'
check [ "$(cat out)" = "$want" ]
hub=cache/hub/models--openai-community--gpt2
mkdir -p $hub/refs $hub/snapshots
printf 0123abc >$hub/refs/main
cp -r words $hub/snapshots/0123abc
for name in gpt2 openai-community/gpt2; do
    echo "one two" | code 0 "$LEVIN" tokenize --tokenizer=$name
    check [ "$(cat out)" = "$want" ]
done
code 0 "$LEVIN" prepare text.txt --tokenizer=words --out=tokens
code 0 train runs/worded --data.path=tokens --model.block_size=8 --trainer.max_steps=1
echo "one two" | code 0 "$LEVIN" tokenize --tokenizer=worded
check [ "$(cat out)" = "$want" ]
code 2 "$LEVIN" tokenize --tokenizer=nowhere </dev/null
says "there is no tokenizer 'nowhere': no such path, no run 'runs/nowhere', and no published model of this name" err
# a head that differs from the embedding is refused if config.json ties them; an equal copy is accepted
for family in neox mistral qwen3 llama; do
    cp -r "$golden/$family" tied
    chmod -R u+w tied
    sed -i 's/"tie_word_embeddings": false/"tie_word_embeddings": true/' tied/config.json
    [ $family = llama ] && want=0 || want=1
    code $want "$LEVIN" evaluate tied --data.kind=tokens --data.path=tied/tokens.bin
    [ $family = llama ] || says "differs from the embedding that levin ties it to (tie_word_embeddings)" err
    rm -r tied
done
# a tied model whose file has the head only (safetensors may keep one of two names of a tensor): the head is the embedding
only_head() { # only_head FAMILY: the same model, as `only`
    cp -rL "$golden/$1" only
    chmod -R u+w only
    python3 - <<'P'
import glob, json, struct
new = {"model.embed_tokens.weight": "lm_head.weight", "transformer.wte.weight": "lm_head.weight", "wte.weight": "lm_head.weight"}
for path in glob.glob("only/model*.safetensors"):
    b = open(path, "rb").read()
    n = struct.unpack("<Q", b[:8])[0]
    header = json.loads(b[8:8 + n])
    header = {new.get(k, k): v for k, v in header.items() if k != "lm_head.weight"}
    h = json.dumps(header).encode()
    h += b" " * (-len(h) % 8)
    open(path, "wb").write(struct.pack("<Q", len(h)) + h + b[8 + n:])
for path in glob.glob("only/*.index.json"):
    d = json.load(open(path))
    d["weight_map"] = {new.get(k, k): v for k, v in sorted(d["weight_map"].items(), reverse=True)}
    json.dump(d, open(path, "w"))
P
}
for family in llama gpt2; do
    only_head $family
    sed -i 's/"tie_word_embeddings": false/"tie_word_embeddings": true/' only/config.json
    whole=$golden/$family
    [ $family = gpt2 ] || { cp -rL "$whole" whole && chmod -R u+w whole && cp only/config.json whole && whole=whole; }
    evaluated() { code 0 "$LEVIN" evaluate "$1" --data.kind=tokens --data.path="$whole/tokens.bin" --json && value loss; }
    check [ "$(evaluated only)" = "$(evaluated "$whole")" ]
    sed -i 's/"tie_word_embeddings": true/"tie_word_embeddings": false/' only/config.json
    code 1 "$LEVIN" evaluate only --data.kind=tokens --data.path="$whole/tokens.bin"
    says ".weight' is missing" err
    rm -r only
done
# BERT as published: the additional head of its pretraining is ignored, and its decoder is always the embedding
cp -r "$golden/bert/mlm" published
chmod -R u+w published
python3 - <<'P'
import json, struct
path = "published/model.safetensors"
b = open(path, "rb").read()
n = struct.unpack("<Q", b[:8])[0]
header, data = json.loads(b[8:8 + n]), b[8 + n:]
C = header["bert.embeddings.LayerNorm.weight"]["shape"][0]
for name, shape in ("weight", [2, C]), ("bias", [2]):
    size = 4 * shape[0] * (shape + [1])[1]
    header["cls.seq_relationship." + name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + size]}
    data += bytes(size)
h = json.dumps(header).encode()
open(path, "wb").write(struct.pack("<Q", len(h)) + h + data)
P
sed -i 's/"tie_word_embeddings": true/"tie_word_embeddings": false/' published/config.json
check grep -q '"tie_word_embeddings": false' published/config.json
for head in BertForMaskedLM BertForPreTraining; do
    sed -i 's/BertFor[A-Za-z]*/'$head'/' published/config.json
    code 0 "$LEVIN" export published "again-$head"
    says BertForMaskedLM "again-$head/config.json"
    check [ -z "$(grep tie_word_embeddings "again-$head/config.json")" ]
done

# results in JSON contain names that are not UTF-8, with U+FFFD for each such byte
mkdir $'odd\xff'
code 0 "$LEVIN" cp text.txt $'odd\xff/copy\xff' --json
json 'd["path"] == "odd\ufffd/copy\ufffd"'
code 0 "$LEVIN" ls $'odd\xff' --json
json '[e["name"] for e in d["entries"]] == ["copy\ufffd"]'
code 1 "$LEVIN" cp $'odd\xff/none' x --json
json '"odd\\xff/none" in d["error"]'
code 0 "$LEVIN" prepare text.txt --out=$'odd\xff/prepared' --json
json 'd["out"] == "odd\ufffd/prepared"'

# an organization may have the name of a prefix; a file URL contains no NUL byte
code 1 "$LEVIN" ls hf://datasets/models/none
says "'hf://datasets/models/none' is not in Hugging Face's cache" err
code 2 "$LEVIN" cp "file://$PWD/text.txt%00b" copied
says "a path cannot contain a NUL byte (%00)" err
