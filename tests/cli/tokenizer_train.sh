# levin tokenizer train: vocabularies from text, .jsonl and .tsv, which tokenize and prepare use; refusals.
# label: user
. "$LEVIN_SOURCE/tests/cli/common.bash"
text=$LEVIN_SOURCE/tests/golden/tokenizers/trained/text.txt

code 0 "$LEVIN" tokenizer train --kind=bpe --input="$text" --vocab-size=500 --out=bpe --json
json 'd["vocab_size"] == 500 and d["merges"] >= 243 and d["bad_lines"] == 0'
code 0 "$LEVIN" tokenize --tokenizer=bpe <"$text"
mv out ids
code 0 "$LEVIN" tokenize --tokenizer=bpe --decode=- <ids
same_file "$text" out
mkdir pair && cp bpe/vocab.json bpe/merges.txt pair # the two files are equivalent
"$LEVIN" tokenize --tokenizer=pair <"$text" >same
same_file ids same

code 0 "$LEVIN" tokenizer train --kind=wordpiece --input="$text" --vocab-size=400 --out=words
says "400 tokens" out
check [ "$(head -5 words/vocab.txt | tr '\n' ' ')" = "[PAD] [UNK] [CLS] [SEP] [MASK] " ]
"$LEVIN" tokenize --tokenizer=words <"$text" >ids
mkdir list && cp words/vocab.txt words/tokenizer_config.json list
"$LEVIN" tokenize --tokenizer=list <"$text" >same
same_file ids same
code 0 "$LEVIN" prepare "$text" --tokenizer=words --out=tokens --json # [CLS] before a text and [SEP] after it
python3 - <<'P'
import struct
for part in ("train", "val"):
    data = open(f"tokens/{part}.bin", "rb").read()
    assert struct.unpack("<H", data[:2]) == (2,) and struct.unpack("<H", data[-2:]) == (3,), part
P

# the same words from a table and from lines of JSON
python3 - "$text" <<'P'
import json, sys
lines = [line.replace("\t", " ") for line in open(sys.argv[1]).read().split("\n")[:-1]]
open("plain.txt", "w").write("".join(line + "\n" for line in lines))
with open("rows.tsv", "w") as table, open("rows.jsonl", "w") as rows:
    table.write("id\tdocument\tlabel\n")
    for i, line in enumerate(lines):
        table.write(f"{i}\t{line}\t1\n")
        rows.write(json.dumps({"document": line}) + "\n")
    rows.write("{}\n")
P
for input in plain.txt rows.tsv rows.jsonl; do
    code 0 "$LEVIN" tokenizer train --kind=bpe --input=$input --field=document --vocab-size=400 --out="from-$input"
    same_file from-plain.txt/merges.txt "from-$input/merges.txt"
done
says "1 row cannot be used and is skipped; the first: rows.jsonl:" out

# a pattern and special tokens: of a list or a file; the same with any number of threads; documents share no word
printf '<|bos|>\n<|user|>\n' >special.txt
pattern=(--pattern='\p{L}+|\p{N}{1,2}|[^\p{L}\p{N}]+')
for threads in 1 3; do
    code 0 "$LEVIN" tokenizer train --input="$text" --vocab-size=500 --out=threads-$threads --special-tokens=special.txt "${pattern[@]}" \
        --trainer.threads=$threads
done
same_file threads-1/tokenizer.json threads-3/tokenizer.json
code 0 "$LEVIN" tokenizer train --input="$text" --vocab-size=500 --out=listed --special-tokens='<|bos|>,<|user|>' "${pattern[@]}"
same_file threads-1/tokenizer.json listed/tokenizer.json
check [ ! -e listed/merges.txt ] # GPT-2's two files have no pattern
code 0 "$LEVIN" tokenize --tokenizer=listed --allow-special='<|bos|>' --json <<<'<|bos|>A 12345'
json 'd["ids"][0] == 498 and d["ids"][1] == 65'
code 0 "$LEVIN" tokenize --tokenizer=listed <"$text"
mv out ids
code 0 "$LEVIN" tokenize --tokenizer=listed --decode=- <ids
same_file "$text" out
printf '{"text": "abab"}\n{"text": "cdcd"}\n' >short.jsonl
printf 'text\nabab\ncdcd\n' >short.csv
mkdir short && printf abab >short/a.txt && printf cdcd >short/b.txt
for input in short short.jsonl short.csv; do
    code 0 "$LEVIN" tokenizer train --input=$input --vocab-size=270 --out="as-$input" --pattern='[a-z]+' --special-tokens='<s>'
    check grep -q '"abab"' "as-$input/tokenizer.json"
    check [ "$(grep -c '"ababcd' "as-$input/tokenizer.json")" = 0 ]
done

refuse() { # refuse SENTENCE FLAGS
    local sentence=$1
    shift
    code 2 "$LEVIN" tokenizer train --input="$text" --out=new "$@"
    one_error
    says "$sentence" err
}
refuse_file() { # refuse_file SENTENCE FILE [FLAGS]
    code 1 "$LEVIN" tokenizer train --out=new --input="${@:2}"
    one_error
    says "$1" err
}
refuse "must be wordpiece or bpe" --kind=unigram
refuse "--pattern and --special-tokens are for --kind=bpe" --kind=wordpiece --pattern='a+'
refuse "--pattern and --special-tokens are for --kind=bpe" --kind=wordpiece --special-tokens='<s>'
refuse "--special-tokens ',' has no token" --special-tokens=,
refuse "--special-tokens 'missing.txt' is the name of a text file" --special-tokens=missing.txt
refuse "the special token 'a' is also a part of words" --special-tokens=a
refuse "the special token '<s>' is named twice" --special-tokens='<s>,<s>'
refuse "has no room for the 400 special ones" --vocab-size=600 --special-tokens="$(seq -s, 1000 1399)"
refuse_file "'--pattern'" "$text" --pattern='(?<=a)b'
refuse "give a larger --vocab-size" --kind=bpe --vocab-size=100
refuse "with --limit-alphabet" --kind=wordpiece --vocab-size=20
refuse "are for --kind=wordpiece" --kind=bpe --lowercase
refuse "holds a tokenizer already" --kind=bpe --out=bpe
refuse_file "has no column 'words'; its columns are" rows.tsv --field=words
says "name the right one with --field=COLUMN" err
refuse "requires --out" --out=
refuse "requires --input" --input=
code 2 "$LEVIN" tokenizer learn --input="$text" --out=new
says "levin tokenizer supports train" err
: >empty.txt
code 1 "$LEVIN" tokenizer train --input=empty.txt --out=new
says "there is no text" err
# tables as in other commands: quotes, line ends within them, a byte order mark, line ends of other systems; bad rows are counted
printf '\xef\xbb\xbfid,document\r\n1,"one, ""two""\nthree"\r\n2,four\r\n3\r\n4,\xff\r\n5,five\r\n' >rows.csv
code 0 "$LEVIN" tokenizer train --input=rows.csv --out=commas --vocab-size=300 --json
json 'd["text_bytes"] == 27 and d["bad_lines"] == 2'
printf 'id\tdocument\n1\t"one\n2\ttwo\t3\n\n4\tfour\n' >rows.tsv
code 0 "$LEVIN" tokenizer train --input=rows.tsv --out=tabs --vocab-size=300
says "1 row cannot be used and is skipped; the first: rows.tsv:3: 3 columns; the first line has 2" out
printf 'document,document\na,b\n' >twice.csv
refuse_file "twice.csv:1: 2 columns have the name 'document'" twice.csv
printf 'document\n"a\nb\n' >open.csv
code 0 "$LEVIN" tokenizer train --input=open.csv --out=open --vocab-size=300
says "the first: open.csv:2: a quotation mark is never closed" out
python3 -c 'print("text\none\n\"" + "abab cdcd\n" * 3400000 + "\"")' >LONG.CSV # one row: more than what is read at a time
code 0 "$LEVIN" tokenizer train --input=LONG.CSV --out=long --vocab-size=300 --json
json 'd["text_bytes"] == 34000005 and d["bad_lines"] == 0'
rm LONG.CSV
printf 'PAR1' >rows.parquet
refuse_file "'rows.parquet' cannot be read as a Parquet file: it has fewer than 12 bytes" rows.parquet
check [ ! -e new ]

# a text in another encoding is refused, as levin train and levin prepare do
printf 'caf\xe9 na\xefve\n' >latin.txt
code 1 "$LEVIN" tokenizer train --input=latin.txt --out=latin --vocab-size=300
says "'latin.txt' is not UTF-8 text: byte 0xe9 at offset 3" err
check test ! -e latin
