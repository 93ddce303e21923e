# label: soak
# levin launch --max-restarts at any moment of a run: from its first to beyond its last, a rank, its launcher (levin ranks) or
# levin launch is killed, stopped, or stopped and continued later; half of the rounds use --overwrite over a former run. All rounds
# end with 0 and the bits of an undisturbed run; one whose levin launch was killed is resumed with --resume.
# SOAK_ROUNDS is the number of rounds (200; in the long form 2000), SOAK_JOBS how many run at a time (3), SOAK_SEED repeats them,
# SOAK_FIRST begins with a later one. A round that fails is printed with its number.
. "$LEVIN_SOURCE/tests/cli/common.bash"
make_text
export OMP_NUM_THREADS=1
steps=120
keys=(--data.path="$PWD/text.txt" --trainer.deterministic=true --trainer.micro_batch_size=1 --trainer.threads=1
    --trainer.val_check_interval=0 --trainer.max_steps=$steps --checkpoint.every_n_steps=10 --trainer.rank_timeout=2
    --trainer.log_every_n_steps=0)
arguments alone "${keys[@]}"
code 0 "$LEVIN" "${all[@]}"
arguments former "${keys[@]}" --trainer.seed=5
code 0 "$LEVIN" "${all[@]}"
launch=("$LEVIN" launch --launcher=levin --max-restarts=2 -n 3 --)
arguments quiet "${keys[@]}"
began=$(date +%s%N)
code 0 "${launch[@]}" "${all[@]}"
whole=$((($(date +%s%N) - began) / 1000000 * 5 / 4)) # milliseconds
echo "SOAK_SEED=${SOAK_SEED:=$SRANDOM}; a quiet run takes $((whole * 4 / 5)) ms"
whats=("rank kill" "rank kill" "rank stop" "rank pause" "ranks kill" "ranks pause" "launch kill" "launch pause")
victim() { # WHAT: its process, "" where there is none
    local ranks all
    case $1 in
    launch) echo "$pid" ;;
    ranks) pgrep -P "$pid" | head -1 || true ;;
    rank)
        ranks=$(pgrep -P "$pid" | head -1 || true)
        mapfile -t all < <([ -z "$ranks" ] || pgrep -P "$ranks")
        [ ${#all[@]} = 0 ] || echo "${all[which % ${#all[@]}]}"
        ;;
    esac
}
strike() {
    local p
    p=$(victim "$what" || true)
    [ -n "$p" ] || return 0
    case $how in
    kill) kill -KILL "$p" 2>/dev/null || true ;;
    stop) kill -STOP "$p" 2>/dev/null || true ;;
    pause)
        kill -STOP "$p" 2>/dev/null || return 0
        sleep "$pause"
        kill -CONT "$p" 2>/dev/null || true
        ;;
    esac
}
wrong() { echo "round $number ($what $how after $moment ms, $mode): $*" && sed 's/^/    /' err | tail -8 | cut -c1-300 && exit 1; }
round() ( # NUMBER: in a separate folder
    number=$1 got=0 mode=new
    RANDOM=$(((SOAK_SEED + number) % 32768))
    : $RANDOM $RANDOM
    mkdir "round-$number" && cd "round-$number"
    read -r what how <<<"${whats[RANDOM % ${#whats[@]}]}"
    moment=$(((RANDOM * 32768 + RANDOM) % whole)) which=$((RANDOM % 3)) pause=$((RANDOM % 5)).$((RANDOM % 10))
    arguments run "${keys[@]}"
    if [ $((RANDOM % 2)) = 1 ]; then
        mode=overwrite
        cp -r ../former run
        all+=(--overwrite)
    fi
    exec 2>/dev/null # the shell reports processes that were killed
    "${launch[@]}" "${all[@]}" >out 2>err &
    pid=$!
    sleep "$(printf '%d.%03d' $((moment / 1000)) $((moment % 1000)))"
    strike
    for ((n = 0; n < 1500; n++)); do
        kill -0 $pid 2>/dev/null || break
        sleep 0.1
    done
    kill -KILL $pid 2>/dev/null && wrong "not over within 150 s"
    wait $pid || got=$?
    if [ "$what $how" = "launch kill" ] && [ $got = 137 ]; then
        arguments run "${keys[@]}"
        # before this run had begun, the folder holds the former run, or nothing
        if grep -q "^# begun by levin launch " run/settings.yaml 2>/dev/null; then resume=--resume; else resume=--overwrite; fi
        for ((n = 0; n < 300; n++)); do # its ranks end without help
            got=0
            "$LEVIN" "${all[@]}" $resume >again 2>&1 || got=$?
            grep -q "another process is training" again || break
            sleep 0.1
        done
        [ $got = 0 ] || wrong "it cannot be resumed: $(tail -1 again)"
    fi
    [ $got = 0 ] || wrong "exit code $got"
    ! grep -q "already contains a run" err || wrong "it meets its own run"
    cmp -s ../alone/checkpoints/last/model.safetensors run/checkpoints/last/model.safetensors || wrong "other bits"
    cd ..
    rm -rf "round-$number"
)
bad=0 running=0 rounds=${SOAK_ROUNDS:-200} first=${SOAK_FIRST:-1} done=0
for ((i = first; i < first + rounds; i++)); do
    if [ $running -ge "${SOAK_JOBS:-3}" ]; then
        wait -n || bad=$((bad + 1))
        done=$((done + 1)) running=$((running - 1))
        [ $((done % 50)) != 0 ] || echo "$((done - bad)) of $done rounds ended as promised"
    fi
    round $i &
    running=$((running + 1))
done
while [ $running -gt 0 ]; do
    wait -n || bad=$((bad + 1))
    done=$((done + 1)) running=$((running - 1))
done
echo "$((done - bad)) of $done rounds ended as promised"
check [ $bad = 0 ] && check [ $done -gt 0 ]
