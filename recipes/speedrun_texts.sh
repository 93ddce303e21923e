#!/bin/bash
# Texts, conversations and a CORE bundle for recipes/speedrun.sh --tiny, from what every machine has.
#
#   recipes/speedrun_texts.sh texts|talks OUT        writes OUT/texts, or OUT/made from them
set -euo pipefail
out=${2:?usage: recipes/speedrun_texts.sh texts|talks OUT}
collect() { # texts that every machine has: the first 16 MB
    mkdir -p "$out/texts"
    find -L /usr/share/common-licenses /usr/share/licenses /usr/share/doc /usr/share/perl /usr/lib/python3*/pydoc_data -type f \
        \( -name copyright -o -name 'topics.py' -o -name '*.pod' -o -name 'README*' -o -name 'LICEN[CS]E*' -o -path '*common-licenses*' \) \
        ! -name '*.gz' -size -2000k 2>/dev/null | LC_ALL=C sort | tr '\n' '\0' | xargs -0 awk 'FNR == 1 { print "<|endoftext|>" } { print }' 2>/dev/null |
        iconv -c -f UTF-8 -t UTF-8 2>/dev/null | head -c 16000000 | iconv -c -f UTF-8 -t UTF-8 >"$out/texts/machine.txt" || true
    [ -s "$out/texts/machine.txt" ] || { echo "there are no texts below /usr/share: give a folder of them in TEXT" >&2; return 1; }
    ls -l "$out/texts"
}
make_talks() { # conversations and a CORE bundle about what follows what in the text, for lack of better ones
    mkdir -p "$out/made/core/eval_data"
    cat "$out"/texts/*.txt | grep -xE ' *[A-Za-z][A-Za-z0-9 ,.;:()-]{30,90}' | sed 's/^ *//' | awk '!seen[$0]++' | head -6000 |
        awk -v talks="$out/made/talks.jsonl" -v mc="$out/made/core/eval_data/next.jsonl" -v lm="$out/made/core/eval_data/end.jsonl" '
        NR % 2 { first = $0; next }
        { printf "{\"messages\": [{\"role\": \"user\", \"content\": \"What follows: %s\"}, {\"role\": \"assistant\", \"content\": \"%s\"}]}\n", first, $0 >talks }
        NR % 20 == 0 { printf "{\"query\": \"%s\", \"choices\": [\"%s\", \"%s\"], \"gold\": %d}\n", first, NR % 40 ? $0 : old, NR % 40 ? old : $0, NR % 40 == 0 >mc
            n = match($0, / [^ ]*$/); printf "{\"context\": \"%s\", \"continuation\": \"%s\"}\n", substr($0, 1, n - 1), substr($0, n + 1) >lm }
        { old = $0 }' || [ -s "$out/made/core/eval_data/end.jsonl" ]
    printf '%s\n' 'icl_tasks:' \
        '- {label: next, dataset_uri: next.jsonl, num_fewshot: [0], icl_task_type: multiple_choice, continuation_delimiter: " "}' \
        '- {label: end, dataset_uri: end.jsonl, num_fewshot: [0], icl_task_type: language_modeling}' >"$out/made/core/core.yaml"
    printf 'Eval Task,Task Category,Random baseline,Description\nnext,text,50,which line follows\nend,text,0,the last word\n' \
        >"$out/made/core/eval_meta_data.csv"
}
case $1 in
texts) collect ;;
talks) make_talks ;;
*) echo "'$1' must be texts or talks" >&2; exit 2 ;;
esac
