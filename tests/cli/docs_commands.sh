# docs_commands.sh - the commands, keys, scripts and files that pages name exist.
# label: computes
command -v python3 >/dev/null || { echo "skipped: python3 is not installed"; exit 77; }
"$LEVIN_SOURCE/tools/check_docs" "$LEVIN"
