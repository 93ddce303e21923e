#!/usr/bin/env bash
# reports_failure.sh FAILING_PROGRAM CTEST - a failing test must make every runner end with a status other than zero.
set -u
failing=$1 ctest=$2
here=$(dirname "$(realpath "$0")")
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT

refuse() {
    echo "$1 ended with 0 although its test failed"
    exit 1
}
"$failing" >/dev/null 2>&1 && refuse "the unit test program"

printf 'false\n' >"$folder/fails.sh"
printf 'true\n' >"$folder/passes.sh"
printf 'exit 77\n' >"$folder/skips.sh"
bash "$here/../run_cli" "$folder/fails.sh" && refuse "the runner of scripts"
bash "$here/../run_cli" "$folder/passes.sh" || { echo "the runner of scripts fails where the script passes"; exit 1; }
bash "$here/../run_cli" "$folder/skips.sh"
[ $? = 77 ] || { echo "the runner of scripts does not pass 77 on"; exit 1; }

printf 'add_test(failing "%s")\n' "$failing" >"$folder/CTestTestfile.cmake"
(cd "$folder" && "$ctest" >/dev/null 2>&1) && refuse "ctest"
exit 0
