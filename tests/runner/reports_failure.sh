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

# tools/run_tests passes the status of ctest on, and ends with the slowest ten.
run_tests() { PATH=$(dirname "$ctest"):$PATH LEVIN_BUILD=$folder bash "$here/../../tools/run_tests" "$@" >"$folder/out" 2>&1; }
run_tests && refuse "tools/run_tests"
[ "$(tail -n 1 "$folder/out" | awk '{print $2, $3}')" = "s failing" ] || { cat "$folder/out"; echo "tools/run_tests does not list a failed test"; exit 1; }
# a ctest whose tests take fixed times: on a busy machine tests that sleep do not end in the order of their times
cat >"$folder/ctest" <<'END'
#!/usr/bin/env bash
while [ "$1" != --output-log ]; do shift; done
{
    for i in $(seq 11 -1 1); do printf '%2d/12 Test %4s: nap%d ..............   Passed    %d.%02d sec\n' "$i" "#$i" "$i" $((12 - i)) $((5 * i)); done
    echo '12/12 Test  #12: skipped ............***Skipped  99.00 sec'
} >"$2"
END
chmod +x "$folder/ctest"
ctest=$folder/ctest
run_tests || { cat "$folder/out"; echo "tools/run_tests fails where all tests pass"; exit 1; }
slowest=$(sed '1,/^The slowest tests:$/d' "$folder/out" | awk '{print $3}' | tr '\n' ' ')
[ "$slowest" = "nap1 nap2 nap3 nap4 nap5 nap6 nap7 nap8 nap9 nap10 " ] || { cat "$folder/out"; echo "the slowest are: $slowest"; exit 1; }
exit 0
