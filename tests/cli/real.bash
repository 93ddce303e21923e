# real.bash - published models and data for tests: tools/setup.sh --dev installs them into parts/real, which may be missing.
. "$LEVIN_SOURCE/tests/cli/common.bash"
real=$LEVIN_SOURCE/parts/real

real_has() { # real_has NAME: else this test is skipped
    [ -d "$real/$1" ] && return
    echo "skipped: no parts/real/$1 (tools/setup.sh --dev installs it)"
    exit 77
}
real_reviews() { # train.tsv and test.tsv: sentences of film reviews; label 1 where their readers found them more good than bad
    real_has reviews
    tar xzOf "$real"/reviews/*.tar.gz hutto_ICWSM_2014/movieReviewSnippets_GroundTruth.txt | iconv -f latin1 -t utf-8 |
        tr -d '\r' | awk -F'\t' -v OFS='\t' '
            FNR == 1 { print "id", "document", "label" >"train.tsv"; print "id", "document", "label" >"test.tsv" }
            NF >= 3 { print $1, $3, ($2 > 0) >($1 % 10 ? "train.tsv" : "test.tsv") }'
}
real_minilm() { # the folder minilm: a BERT of 6 layers and 384 channels
    real_has minilm
    mkdir minilm
    python3 -m zipfile -e "$real/minilm/model.zip" minilm
}
real_smollm2() { # the variable smollm2: SmolLM2-135M-Instruct with its tokenizer and chat template, a GGUF file
    real_has smollm2
    smollm2=$(echo "$real"/smollm2/*.gguf)
}
accuracy_of() { # accuracy_of MODEL OPTION...: of the test part, in the variable accuracy
    code 0 "$LEVIN" evaluate "$@" --json
    accuracy=$(python3 -c 'import json; print(json.load(open("out"))["accuracy"])')
}
at_least() { python3 -c "import sys; sys.exit(not float('$1') >= float('$2'))" || fail "accuracy $1, wanted at least $2"; }
