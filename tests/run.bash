# run.bash - shared by run_cli and run_python: an empty folder, an empty cache, and none of the user's settings.
#
# Sets $script and $folder. At the end it kills the processes of the test that still run in the folder, for example an
# endless run of a test that failed, and removes the folder and the cache.
script=$(realpath "$1")
folder=$(mktemp -d "${TMPDIR:-/tmp}/levin-test.XXXXXX") || exit 1
private=$(mktemp -d "${TMPDIR:-/tmp}/levin-cache.XXXXXX") || exit 1
# Kill the processes whose current folder is below that of the test. Again: one may have started another.
kill_remaining() {
    local link processes
    cd /
    for _ in 1 2 3; do
        processes=$(find /proc -mindepth 2 -maxdepth 2 -name cwd -lname "$folder*" 2>/dev/null)
        [ -n "$processes" ] || return 0
        for link in $processes; do
            echo "still running at the end: $(tr '\0' ' ' <"${link%cwd}cmdline" 2>/dev/null | head -c 200)"
            kill -KILL "$(basename "${link%/cwd}")" 2>/dev/null
        done
        sleep 0.1
    done
}
trap 'kill_remaining; rm -rf "$folder" "$private"' EXIT
trap 'exit 130' INT TERM
# Encoded data and compiled kernels of an earlier build must not be read. The compiler cache of the user has no such effect.
export CCACHE_DIR=${CCACHE_DIR:-$(ccache -k cache_dir 2>/dev/null || true)}
[ -n "$CCACHE_DIR" ] || unset CCACHE_DIR
export XDG_CACHE_HOME=$private LC_ALL=C.UTF-8
unset LEVIN_CACHE LEVIN_CACHE_SIZE http_proxy https_proxy all_proxy no_proxy HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY \
    ${!HF_@} ${!HUGGINGFACE_@} ${!AWS_@} ${!GOOGLE_@}
