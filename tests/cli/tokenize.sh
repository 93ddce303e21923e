# levin tokenize: bytes to ids and back, as text and JSON; refusals.
. "$LEVIN_SOURCE/tests/cli/common.bash"
gpt2=$LEVIN_SOURCE/tests/golden/tokenizers/tiny-gpt2 neox=$LEVIN_SOURCE/tests/golden/tokenizers/tiny-neox
ids() { tr -d '\n' <out | tr ' ' ,; }

printf 'return 0;\n' | code 0 "$LEVIN" tokenize --tokenizer="$gpt2" --json
json 'list(d) == ["ids"] and len(d["ids"]) > 2'
printf 'return 0;\n' | code 0 "$LEVIN" tokenize --tokenizer="$gpt2/merges.txt"
"$LEVIN" tokenize --tokenizer="$gpt2" --decode="$(ids)" >back
printf 'return 0;\n' >text
same_file text back

# merges with the mark that some editors write
mkdir marked
cp "$gpt2/vocab.json" marked
{ printf '\xef\xbb\xbf' && cat "$gpt2/merges.txt"; } >marked/merges.txt
printf 'return 0;\n' | code 0 "$LEVIN" tokenize --tokenizer=marked
check [ "$("$LEVIN" tokenize --tokenizer=marked --decode="$(ids)")" = "return 0;" ]

# any bytes are decoded unchanged, for any length and any number of threads
seed=$SRANDOM
echo "seed $seed"
python3 -c 'import random, sys; sys.stdout.buffer.write(random.Random(int(sys.argv[1])).randbytes(3000000))' "$seed" >noise
code 0 "$LEVIN" tokenize --tokenizer="$gpt2" <noise
mv out ids
code 0 "$LEVIN" tokenize --tokenizer="$gpt2" --decode=- <ids
same_file noise out
OMP_NUM_THREADS=1 "$LEVIN" tokenize --tokenizer="$gpt2" <noise >one
OMP_NUM_THREADS=5 "$LEVIN" tokenize --tokenizer="$gpt2" <noise >five
same_file one ids
same_file five ids

# a stream in pieces that end inside characters and words
for i in $(seq 1 300); do printf 'wörter und W\xc3'; printf '\xb6rter %s' "$i"; done >pieces
code 0 "$LEVIN" tokenize --tokenizer="$gpt2" <pieces
mv out whole
(head -c 1001 pieces; sleep 0.1; tail -c +1002 pieces) | code 0 "$LEVIN" tokenize --tokenizer="$gpt2"
same_file whole out

code 0 "$LEVIN" tokenize --tokenizer="$gpt2" --json </dev/null
[ "$(cat out)" = '{"ids":[]}' ] || fail "$(cat out)"
code 0 "$LEVIN" tokenize --tokenizer="$gpt2" --decode= # nothing
check [ ! -s out ]

# special tokens are recognized, as by transformers; further ones if they are named
printf 'a<|endoftext|>' | code 0 "$LEVIN" tokenize --tokenizer="$gpt2" --json
json 'd["ids"][1:] == [0]'
printf 'a<|endoftext|>' | code 0 "$LEVIN" tokenize --tokenizer="$gpt2" --json '--allow-special=<|endoftext|>'
json 'd["ids"][1:] == [0]'
printf 'a<|endoftext|>' | code 0 "$LEVIN" tokenize --tokenizer="$neox" --json
json 'd["ids"][1:] == [0]'
code 2 "$LEVIN" tokenize --tokenizer="$gpt2" --allow-special=none </dev/null
says "has no token 'none'" err

code 0 "$LEVIN" tokenize --tokenizer="$gpt2" --decode=0 --json
json 'd == {"text": "<|endoftext|>"}'
code 2 "$LEVIN" tokenize --tokenizer="$gpt2" --decode=999999
says "999999 is not a token id" err
code 2 "$LEVIN" tokenize --tokenizer="$gpt2" --decode=1,x
says "must be token ids" err
printf '\n 1 2\n' >spaced
code 0 "$LEVIN" tokenize --tokenizer="$gpt2" --decode=- <spaced # blanks before the first id
check [ "$(cat out)" = '!"' ]
printf '1 2\0 3' >spaced
code 2 "$LEVIN" tokenize --tokenizer="$gpt2" --decode=- <spaced
says "standard input contains a NUL byte" err
code 2 "$LEVIN" tokenize </dev/null
says "needs --tokenizer" err
code 2 "$LEVIN" tokenize --tokenizer=nowhere --json </dev/null
says "there is no tokenizer 'nowhere'" out
mkdir cut
head -c 2000 "$gpt2/vocab.json" >cut/vocab.json
cp "$gpt2/merges.txt" cut
code 1 "$LEVIN" tokenize --tokenizer=cut </dev/null
says "invalid JSON" err

# BERT's vocab.txt: words, lower case; special tokens such as [UNK] are recognized
bert=$LEVIN_SOURCE/tests/golden/tokenizers/tiny-bert
printf 'H\xc3\xa9llo,  WORLD' | code 0 "$LEVIN" tokenize --tokenizer="$bert/vocab.txt"
mv out ids
code 0 "$LEVIN" tokenize --tokenizer="$bert" --decode=- <ids
[ "$(cat out)" = "hello , world" ] || fail "$(cat out)"
printf '[SEP]' | code 0 "$LEVIN" tokenize --tokenizer="$bert" --json
json 'd["ids"] == [3]'
printf '[SEP]' | code 0 "$LEVIN" tokenize --tokenizer="$bert" --json '--allow-special=[SEP]'
json 'd["ids"] == [3]'
mkdir both && cp "$bert"/* "$bert/../tiny-words/tokenizer.json" both # tokenizer.json takes precedence
printf 'hello' | code 0 "$LEVIN" tokenize --tokenizer=both --json

# a vocabulary that lacks bytes: they are dropped, with a warning
python3 -c 'import json, sys
json.dump(json.load(open(sys.argv[1]))["kinds"][0]["tokenizer"], open("holes.json", "w"))' "$LEVIN_SOURCE/tests/golden/tokenizers/holes.json"
printf 'axbxc' | code 0 "$LEVIN" tokenize --tokenizer=holes.json
says "holes.json' has no token for" err
mv out holes
printf 'abc' | code 0 "$LEVIN" tokenize --tokenizer=holes.json
same_file holes out

# --- tokenizer_config.json, special_tokens_map.json and added_tokens.json: the ids of transformers 5.24 ---
golden=$LEVIN_SOURCE/tests/golden/tokenizers
changed() { # changed BASE CONFIG [ADDED [MAP [CONFIG.JSON]]]: a copy in `changed`, with these JSON texts merged in or as further files
    rm -rf changed
    cp -r "$golden/$1" changed
    python3 - "$@" <<'P'
import json, os, sys
path = "changed/tokenizer_config.json"
config = json.load(open(path)) if os.path.exists(path) else {}
config.update(json.loads(sys.argv[2]))
json.dump(config, open(path, "w"))
for name, text in zip(("added_tokens.json", "special_tokens_map.json", "config.json"), sys.argv[3:]):
    if text: open("changed/" + name, "w").write(text)
P
}
added() { # added STATEMENT: change the list `a` of changed/tokenizer.json
    python3 - "$1" <<'P'
import json, sys
t = json.load(open("changed/tokenizer.json"))
a = t["added_tokens"]
def new(id, text): return dict(a[0], id=id, content=text)
exec(sys.argv[1])
json.dump(t, open("changed/tokenizer.json", "w"))
P
}
gives() { # gives TEXT IDS...
    printf '%s' "$1" | code 0 "$LEVIN" tokenize --tokenizer=changed
    [ "$(cat out)" = "$2" ] || fail "$1: $(cat out), expected $2"
}
e1='{"content": "[E1]", "lstrip": false, "rstrip": false, "normalized": true, "single_word": false, "special": false}'
changed tiny-bert-cased '{"tokenizer_class": "BertTokenizer"}' '{"[E1]": 600}'
gives 'the [E1] man' '187 600 487'
gives 'the [SEP] man [sep]' '187 3 487 62 346 131 64'
code 0 "$LEVIN" tokenize --tokenizer=changed --decode=187,600,487
[ "$(cat out)" = "the [E1] man" ] || fail "decoded: $(cat out)"
changed tiny-bert-cased "{\"added_tokens_decoder\": {\"600\": $e1}}"
gives 'the [E1] man' '187 600 487'
silent_about warning err
changed tiny-bert-cased "{\"added_tokens_decoder\": {\"700\": $e1}}"
gives 'the [E1] man' '187 600 487'
says "the id 700, and its id is 600" err
changed tiny-bert-cased '{}' '{"[E1]": 700, "[E2]": 701, "[E3]": 702}'
gives '[E3]' 602
says "the token '[E1]' the id 700, and its id is 600, as in transformers 5: the next free one, or that of the vocabulary; other such tokens: 2" err
lacks "'[E2]'" err
changed tiny-bert '{}' '{"[E1]": 600}'
gives 'the [E1] man [e1]' '143 600 434 600'
changed tiny-bert-cased '{"additional_special_tokens": ["[E1]", "[E2]"]}'
gives 'the [E1] man [E2]' '187 600 487 601'
changed tiny-bert-cased '{"do_lower_case": false, "strip_accents": true}'
gives 'The é man' '350 72 487'
changed tiny-bert-cased '{"unk_token": "[PAD]"}'
gives '一 zzz ☃ x' '0 93 154 154 0 91'
changed tiny-gpt2 '{}' '{"<pad>": 500, "<user>": 501}'
gives '<user>hello<pad><|endoftext|>' '501 303 76 340 500 0'
changed tiny-gpt2 '{"tokenizer_class": "GPT2Tokenizer", "eos_token": "<|im_end|>", "pad_token": "[PAD]", "additional_special_tokens": ["<a>", "<b>"]}'
gives 'hello [PAD]<a><b><|im_end|> <a> ' '303 76 340 221 501 502 503 500 221 502 221'
changed tiny-gpt2 '{"add_prefix_space": true}'
gives "hello<|endoftext|> hello
hello" '221 303 76 340 0 221 303 76 340 199 303 76 340'
changed tiny-neox '{"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": true}'
gives hello '221 303 76 340'
changed tiny-neox '{"tokenizer_class": "PreTrainedTokenizerFast", "additional_special_tokens": ["<tool>"], "pad_token": "[PAD]"}'
gives 'hello <tool> man[PAD]' '303 76 340 221 525 351 310 524'
changed tiny-words '{"tokenizer_class": "BertTokenizer", "do_lower_case": false}'
gives 'The Man é a' '1 1 1 43'
says "BertTokenizer follows do_lower_case" err
changed tiny-words '{"tokenizer_class": "BertTokenizer", "strip_accents": false}'
gives 'The Man é a' '145 55 163 1 43'
changed tiny-words '{"tokenizer_class": "PreTrainedTokenizerFast", "do_lower_case": false}'
gives 'The Man é a' '145 55 163 47 43'
# settings that levin does not support are reported once
changed tiny-llama2 '{"add_bos_token": false, "add_eos_token": true, "bos_token": "<s>", "eos_token": "</s>"}'
gives 'a man' '360 381 425'
says "add_bos_token is false" err
says "add_eos_token is true" err
changed tiny-llama2 '{"add_bos_token": true, "add_eos_token": false, "add_prefix_space": true, "split_special_tokens": false, "model_max_length": 5, "bos_token": "<s>"}'
gives 'a man' '360 381 425'
[ ! -s err ] || fail "$(cat err)"
changed tiny-llama2 '{"tokenizer_class": "PreTrainedTokenizerFast", "add_prefix_space": false, "split_special_tokens": true, "truncation_side": "left", "no_such_key": 1}'
gives 'a man' '360 381 425'
for key in "add_prefix_space is false" "split_special_tokens is true" 'truncation_side is "left"' "levin does not know, without effect: no_such_key"; do
    says "$key" err
done
# fix_mistral_regex has an effect on large vocabularies in transformers, unless tokenizer.json has the expression already
mistral() { # mistral TOKENS EXPRESSION
    changed tiny-llama3 '{"fix_mistral_regex": true}'
    python3 - "$@" <<'P'
import json, sys
d = json.load(open("changed/tokenizer.json"))
d["model"]["vocab"].update({f"zq{i}": 1000 + i for i in range(int(sys.argv[1]))})
d["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = sys.argv[2]
json.dump(d, open("changed/tokenizer.json", "w"))
P
    code 0 "$LEVIN" tokenize --tokenizer=changed <<<a
}
mistral 100000 '\p{L}+'
says "fix_mistral_regex is true, but levin uses the expression in tokenizer.json, and transformers may use another one" err
mistral 100000 '[\p{Lu}\p{Lt}\p{Lm}\p{Lo}]+'
silent_about fix_mistral_regex err
mistral 1000 '\p{L}+'
silent_about fix_mistral_regex err
# LlamaTokenizer makes its own tokenizer, except in folders of some models; copies do not depend on the model
llama() { # llama CONFIG IDS IDS [MODEL]: of two texts, also of a copy beside another model
    changed tiny-llama2 "{\"tokenizer_class\": \"LlamaTokenizerFast\", \"model_max_length\": 1000000000000000019884624838656$1}" '' '' "{\"model_type\": \"${4-llama}\"}"
    gives 'a man</s>a man' "$2"
    gives ' a' "$3"
    rm -rf copy
    printf 'a man' >man.txt
    code 0 "$LEVIN" prepare text --input=man.txt --tokenizer=changed --val-fraction=0 --out=copy
    for model in llama mistral; do
        rm -rf changed && cp -r copy changed
        echo "{\"model_type\": \"$model\"}" >changed/config.json
        gives 'a man</s>a man' "$2"
        gives ' a' "$3"
        silent_about "LlamaTokenizer ignores" err
    done
}
llama '' '360 381 425 2 315 381 425' 360
llama ', "legacy": null, "add_prefix_space": null' '360 381 425 2 315 381 425' 360
llama ', "legacy": true' '360 381 425 2 360 381 425' 360
llama ', "add_prefix_space": false' '315 381 425 2 315 381 425' 360
llama '' '360 381 425 2 360 381 425' '350 360' mistral
changed tiny-llama2 '{"tokenizer_class": "LlamaTokenizer"}'
gives 'a man</s>a man' '360 381 425 2 315 381 425'
says "and not after added tokens; put the model's config.json there" err
changed tiny-llama2 '{}' '' '{"tokenizer_class": "LlamaTokenizer"}' '{"model_type": "mistral"}' # of the map: no effect
rm changed/tokenizer_config.json
gives 'a man</s>a man' '360 381 425 2 360 381 425'
# the names that GemmaTokenizer gives tokens of the vocabulary
changed tiny-llama2 '{"tokenizer_class": "GemmaTokenizer"}'
added 't["model"]["vocab"]["<mask>"] = 600; t["normalizer"] = t["normalizer"]["normalizers"][1]'
gives 'a<mask>a' '315 600 315'
# tokens of added_tokens_decoder replace those of tokenizer.json
changed tiny-llama2 '{"added_tokens_decoder": {"2": {"content": "</s>", "rstrip": true, "special": true}}}'
gives 'a</s> a' '360 2 360'
changed tiny-llama2 '{"added_tokens_decoder": {"2": {"content": "</s>", "special": true}}}'
added 'for one in a: one["normalized"] = True'
gives 'a</s>a<s>a' '360 2 360 284 333 286 315'
changed tiny-llama2 '{"added_tokens_decoder": {"2": "</s>"}}' # a text alone says nothing about the flags
gives 'a</s>a' '360 2 360'
changed tiny-llama2 '{"extra_special_tokens": ["▁new▁"]}'
gives 'a▁new▁<s>a' '360 600 1 360'
code 0 "$LEVIN" tokenize --tokenizer=changed --decode=360,600,1,360
[ "$(cat out)" = "a new <s> a" ] || fail "decoded: $(cat out)"
changed tiny-llama2 '{}'
added 'a += [new(700, ""), new(600, "<g1>")]' # an empty one has no effect
gives 'a<g1>' '360 600'
[ ! -s err ] || fail "$(cat err)"
added 'a.append(new(702, "<g2>"))' # the ids of the file, which differ
gives 'a<g1><g2>' '360 600 702'
says "the added token '<g2>' has the id 702, and 601 in transformers" err
added 'a += [new(703 + i, f"<h{i}>") for i in range(9)]'
gives 'a<h0>' '360 703'
says "other such tokens: 9" err
lacks "'<h" err
# Qwen2Tokenizer splits and normalizes otherwise, also if only the model's type says that it is one; copies say it themselves
qwen=$(printf "DON'T 12\n\tmane\xcc\x81")
qwen_ids='36 47 46 7 52 221 17 18 199 198 77 310 128 103'
changed tiny-gpt2 '{"tokenizer_class": "Qwen2TokenizerFast"}'
gives "$qwen" "$qwen_ids"
[ ! -s err ] || fail "$(cat err)"
for file in tokenizer_config.json none; do # without the file, and without the member
    changed tiny-gpt2 '{"eos_token": "<|endoftext|>"}' '' '' '{"model_type": "qwen3"}'
    rm -f "changed/$file"
    gives "$qwen" "$qwen_ids"
    printf '%s' "$qwen" >qwen.txt
    code 0 "$LEVIN" prepare text --input=qwen.txt --tokenizer=changed --val-fraction=0 --out=qwen
    rm -r changed
    cp -r qwen changed
    gives "$qwen" "$qwen_ids"
    rm -r qwen
done
# tokens that are both in the vocabulary and added have no merges
changed tiny-gpt2 '{"added_tokens_decoder": {"500": {"content": "hello hello", "special": false}}}'
sed -i 's/}$/, "hello hello": 500}/' changed/vocab.json
gives 'a hello hello' '65 221 500'
echo '{}' >changed/tokenizer_config.json
code 1 "$LEVIN" tokenize --tokenizer=changed </dev/null
says "no merge makes the token of id 500, nor 0 others of its vocabulary" err
changed tiny-gpt2 '{"tokenizer_class": "CodeGenTokenizer"}'
gives hello '303 76 340'
says "tokenizer_class is CodeGenTokenizer" err
changed tiny-gpt2 '{}' '{"<pad>": "x"}'
code 1 "$LEVIN" tokenize --tokenizer=changed </dev/null
says "must have texts of tokens and their ids, found '<pad>'" err
# tokens that texts end with
changed tiny-gpt2 '{"eos_token": "hello", "add_bos_token": true}'
printf 'a man' >man.txt
code 0 "$LEVIN" prepare text --input=man.txt --tokenizer=changed --val-fraction=0 --out=ends
python3 -c 'import array, json
ids = array.array("H", open("ends/train.bin", "rb").read())
assert ids[0] == 0 and ids[-1] == 500 and len(ids) > 3, ids # <|endoftext|> as BOS; the eos_token, which the vocabulary lacks
assert json.load(open("ends/train.bin.json"))["tokenizer"]["end_of_text"] == 500'
