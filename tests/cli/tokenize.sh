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

# any bytes come back, however many and whatever the number of threads
head -c 3000000 /dev/urandom >noise
code 0 "$LEVIN" tokenize --tokenizer="$gpt2" <noise
mv out ids
code 0 "$LEVIN" tokenize --tokenizer="$gpt2" --decode=- <ids
same_file noise out
OMP_NUM_THREADS=1 "$LEVIN" tokenize --tokenizer="$gpt2" <noise >one
OMP_NUM_THREADS=5 "$LEVIN" tokenize --tokenizer="$gpt2" <noise >five
same_file one ids
same_file five ids

# a stream in pieces, cut inside characters and words
for i in $(seq 1 300); do printf 'wörter und W\xc3'; printf '\xb6rter %s' "$i"; done >pieces
code 0 "$LEVIN" tokenize --tokenizer="$gpt2" <pieces
mv out whole
(head -c 1001 pieces; sleep 0.1; tail -c +1002 pieces) | code 0 "$LEVIN" tokenize --tokenizer="$gpt2"
same_file whole out

code 0 "$LEVIN" tokenize --tokenizer="$gpt2" --json </dev/null
[ "$(cat out)" = '{"ids":[]}' ] || fail "$(cat out)"
code 0 "$LEVIN" tokenize --tokenizer="$gpt2" --decode= # nothing
check [ ! -s out ]

# special tokens: ordinary in these files unless named, recognised where a tokenizer.json adds them
printf 'a<|endoftext|>' | code 0 "$LEVIN" tokenize --tokenizer="$gpt2" --json
json 'len(d["ids"]) > 3'
printf 'a<|endoftext|>' | code 0 "$LEVIN" tokenize --tokenizer="$gpt2" --json '--allow-special=<|endoftext|>'
json 'd["ids"][1:] == [0]'
printf 'a<|endoftext|>' | code 0 "$LEVIN" tokenize --tokenizer="$neox" --json
json 'd["ids"][1:] == [0]'
code 2 "$LEVIN" tokenize --tokenizer="$gpt2" --allow-special=none </dev/null
says "has no token 'none'" err

code 0 "$LEVIN" tokenize --tokenizer="$gpt2" --decode=0 --json
json 'd == {"text": "<|endoftext|>"}'
code 2 "$LEVIN" tokenize --tokenizer="$gpt2" --decode=999999
says "999999 is no token id" err
code 2 "$LEVIN" tokenize --tokenizer="$gpt2" --decode=1,x
says "must be token ids" err
code 2 "$LEVIN" tokenize </dev/null
says "wants --tokenizer" err
code 2 "$LEVIN" tokenize --tokenizer=nowhere --json </dev/null
says "there is no tokenizer 'nowhere'" out
mkdir cut
head -c 2000 "$gpt2/vocab.json" >cut/vocab.json
cp "$gpt2/merges.txt" cut
code 1 "$LEVIN" tokenize --tokenizer=cut </dev/null
says "invalid JSON" err

# BERT's vocab.txt: words, small letters; [UNK] and the like are ordinary text unless they are named
bert=$LEVIN_SOURCE/tests/golden/tokenizers/tiny-bert
printf 'H\xc3\xa9llo,  WORLD' | code 0 "$LEVIN" tokenize --tokenizer="$bert/vocab.txt"
mv out ids
code 0 "$LEVIN" tokenize --tokenizer="$bert" --decode=- <ids
[ "$(cat out)" = "hello , world" ] || fail "$(cat out)"
printf '[SEP]' | code 0 "$LEVIN" tokenize --tokenizer="$bert" --json
json 'len(d["ids"]) >= 3'
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
