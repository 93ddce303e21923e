# Pages and scripts that are generated from tables: the committed page is current, the completion scripts work.
"$LEVIN" help --options-markdown >options.md
diff -u "$LEVIN_SOURCE/docs/options.md" options.md || {
    echo "docs/options.md is not what the tables say: make docs"
    exit 1
}
if grep -n "(null)" options.md "$LEVIN_SOURCE/include/levin.h" "$LEVIN_SOURCE"/python/levin/_abi.py; then
    echo "a row of a table has no help"
    exit 1
fi
"$LEVIN_SOURCE/tools/make_levin_h" --check
"$LEVIN_SOURCE/tools/make_levin_abi" --check
"$LEVIN" help --completion bash >complete.bash
bash -n complete.bash
offers() { # offers WORD COMMAND...: does the completion offer WORD for the last word?
    local wanted=$1
    shift
    bash -c '. ./complete.bash; compopt() { :; }
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}; _levin; printf "%s\n" "${COMPREPLY[@]}"' _ "$@" >offered
    grep -qxF -- "$wanted" offered || { echo "$*: no '$wanted' in"; cat offered; exit 1; }
}
offers doctor levin do
offers --optimizer.lr= levin doctor --optimizer.l
offers --json levin doctor --js
offers cosine levin doctor --schedule.kind=c
touch recipe.yaml
offers recipe.yaml levin doctor rec
mkdir -p runs/mine && : >runs/mine/settings.yaml
offers mine levin generate m
offers --optimizer.lr= levin train --optimizer.l
if grep -q 'complete -o filenames' complete.bash; then echo "complete -o filenames escapes the = of options" && exit 1; fi
"$LEVIN" help --completion zsh >complete.zsh
grep -q bashcompinit complete.zsh
"$LEVIN" help --completion fish >complete.fish
grep -q "complete -c levin -l optimizer.lr" complete.fish
if "$LEVIN" help --completion tcsh 2>err; then exit 1; fi
grep -q "supports bash, zsh and fish" err
# docs/design.md has each folder and each pass once
design=$LEVIN_SOURCE/docs/design.md
for folder in "$LEVIN_SOURCE"/src/*/ "$LEVIN_SOURCE"/src/[!b]*/*/; do
    case ${folder#"$LEVIN_SOURCE/src/"} in */*/) line="        $(basename "$folder")/ " ;; *) line="    src/$(basename "$folder")/ " ;; esac
    [ "$(grep -c "^$line" "$design")" = 1 ] || { echo "not once in docs/design.md: $folder"; exit 1; }
done
for pass in $(grep -oE 'lvn_pass_[a-z_]+' "$LEVIN_SOURCE/src/core/passes/pass.h" | sed s/lvn_pass_// | sort -u); do
    [ "$(grep -cE "^\| $pass \|" "$design")" = 1 ] || { echo "not once in docs/design.md: the pass $pass"; exit 1; }
done
