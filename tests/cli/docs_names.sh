# docs_names.sh - tools/check_style finds names of files and functions in comments and pages that do not exist.
command -v python3 >/dev/null || { echo "skipped: python3 is not installed"; exit 77; }
check() { "$LEVIN_SOURCE/tools/check_style" --names "$@"; }

# Names that exist: by base name, by the end of a path, folders, with a placeholder or a star; functions and types. Names
# outside of comments are not checked.
cat >good.c <<'EOF'
/* See status.h, base/status.h, src/core/ops/NAME.cpu.c, tests/cluster/comm_*.sh, tests/golden, lvn_backend_NAME. */
#include "no_header.h" /* lvn_graph_new() and struct levin_graph are there. */
static const char s[] = "/* no_file.c */";
EOF
check good.c

# line NAME TEXT: appends TEXT to the file; the check must report that NAME does not exist
begin() { file=$1 n=0; : >"$file"; files+=("$file"); }
line() {
    n=$((n + 1))
    echo "$2" >>"$file"
    echo "$PWD/$file:$n: there is no $1" >>expected
}
files=()
begin a.c
line "file attention_none.h" '/* as attention_none.h has it */'
line "file base/graph.h" '// base/graph.h lies in another folder'
line "file ops/NAME.none.c" '/* one of ops/NAME.none.c */'
line "file tests/none_*.sh" '/* tests/none_*.sh */'
line "function or type lvn_none" '/* lvn_none() of graph.h */'
begin a.def
line "function or type lvn_none_NAME" '/* struct lvn_none_NAME */'
begin a.sh
line "file tools/none" '# tools/none writes it'
begin a.md
line "file none.py" 'and `none.py` a page'
line "function or type none_at_all" 'which `none_at_all()` does'
if check "${files[@]}" >found; then echo "nothing found"; exit 1; fi
sort found | diff -u <(sort expected) -
