# A run never ends without a sentence if one of two ranks, the first or the second, cannot parse its command line, finds no data,
# or exits silently; under levin launch and, if the rank can still report, under each MPI's own launcher.
. "$LEVIN_SOURCE/tests/cluster/mpis.bash"
. "$LEVIN_SOURCE/tests/cli/common.bash"
mpis_here
make_text
cat >rank <<'E2'
#!/bin/bash
# rank ARGUMENTS...: runs levin, except the rank in ODD, which fails as HOW says
case ${OMPI_COMM_WORLD_RANK:-${PMI_RANK-}}:$HOW in
$ODD:option) exec "$LEVIN" "$@" --no-such-option ;;
$ODD:data) exec "$LEVIN" "$@" --data.val_path=none ;;
$ODD:kill) kill -KILL $$ ;;
$ODD:exit*) exit "${HOW#exit}" ;;
esac
exec "$LEVIN" "$@"
E2
chmod +x rank
one() { # one MPI:BY:HOW:RANK, into $1.{out,err,got}
    local mpi by got=0 path=$PATH
    IFS=: read -r mpi by HOW ODD <<<"$1"
    export ODD HOW
    [ "$mpi" != intel ] || path=$intel/bin:$PATH
    arguments "$mpi-$by-$HOW-$ODD" --trainer.rank_timeout=5
    if [ "$by" = launch ]; then
        PATH=$path timeout -k 3 1800 "$LEVIN" launch --launcher="$PWD/$mpi-launcher" -n 2 -- "${all[@]}" || got=$?
    else
        ranks "$mpi" 2 ./rank "${all[@]}" || got=$?
    fi >"$1.out" 2>"$1.err"
    echo $got >"$1.got"
}
look() { # look MPI:BY:HOW:RANK: it failed with one sentence
    local got n
    got=$(cat "$1.got")
    n=$(grep -cE '^(\[[01]\] )?error: ' "$1.err") || true
    [ "$n" != 0 ] || ! grep -qE '^(\[[01]\] )?stopped on request' "$1.err" || n=1 # "stopped on request" is not an error
    echo "$1: $got, $n sentences"
    [ "$got" != 0 ] && [ "$got" != 124 ] && [ "$n" = 1 ] || { cat "$1.out" "$1.err" && fail "$got, $n sentences"; }
}
all_of() { # all_of WAY...: with each MPI and each rank, all at once
    local way mpi odd each cases=()
    for way; do
        for mpi in "${mpis[@]}"; do
            for odd in 0 1; do cases+=("$mpi:$way:$odd"); done
        done
    done
    for each in "${cases[@]}"; do one "$each" & done
    wait
    for each in "${cases[@]}"; do look "$each"; done
}
for mpi in "${mpis[@]}"; do
    # the command that levin launch starts, with the script above in place of levin
    cat >$mpi-launcher <<E2
#!/bin/bash
words=()
for word in "\$@"; do [ "\$word" != "$(realpath "$LEVIN")" ] || word=$PWD/rank; words+=("\$word"); done
exec "$(mpi_program $mpi)" "\${words[@]}"
E2
    chmod +x $mpi-launcher
done
all_of launch:kill launch:exit1 launch:exit75 # most of the time is the wait until a missing rank is detected
all_of launch:option
all_of launch:data
all_of bare:option
all_of bare:data
