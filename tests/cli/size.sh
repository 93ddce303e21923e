# size.sh - the stripped program stays below 6 MB.
[ -z "${LVN_SANITIZE:-}" ] || { echo "skipped: sanitizers make it larger"; exit 77; }
command -v strip >/dev/null || { echo "skipped: strip is not installed"; exit 77; }
strip -o levin "$LEVIN"
bytes=$(stat -c %s levin)
echo "stripped: $bytes bytes"
[ "$bytes" -lt 6000000 ]
./levin --version
