# The program is hardened: its relocation tables are read-only after the start, its stack has a protector, and copies
# check the size of their destination.
. "$LEVIN_SOURCE/tests/cli/common.bash"
[ -z "${LVN_SANITIZE:-}" ] || { echo "skipped: sanitizers watch in its place"; exit 77; }
command -v readelf >/dev/null || { echo "skipped: readelf is not installed"; exit 77; }
cache=$(dirname "$LEVIN")/CMakeCache.txt
readelf -hW "$LEVIN" >header
says "DYN (" header # position-independent
readelf -lW "$LEVIN" >segments
says GNU_RELRO segments
check grep -q 'GNU_STACK.* RW ' segments # the stack is not executable
lacks " RWE " segments
readelf -dW "$LEVIN" >dynamic
says BIND_NOW dynamic
[ ! -e "$cache" ] || grep -q '^CMAKE_BUILD_TYPE:STRING=Release' "$cache" || exit 0
readelf --dyn-syms -W "$LEVIN" >symbols
says __stack_chk_fail symbols
for function in __vsnprintf_chk __memcpy_chk; do says $function symbols; done
case $(uname -m) in x86_64) readelf -nW "$LEVIN" >notes && says SHSTK notes ;; esac
