# label: soak
# tests/cli/alloc.sh with nearly all allocations; takes half an hour.
. "$LEVIN_SOURCE/tests/cli/common.bash"
whole=1
. "$LEVIN_SOURCE/tests/cli/alloc.bash"
