# label: slow
# One allocation of a command fails: the command reports it and ends with 1 or 76, or its files are correct. Makes some of the allocations fail.
. "$LEVIN_SOURCE/tests/cli/common.bash"
[ -z "${LVN_SANITIZE:-}" ] || { echo "skipped: sanitizers allocate for themselves" && exit 77; }
whole=
. "$LEVIN_SOURCE/tests/cli/alloc.bash"
