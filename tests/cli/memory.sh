# When an allocation fails, at any place, the command fails with a sentence about memory, or its output is complete. The
# k-th allocation of the process fails, including those of jansson and the C library. label: slow
. "$LEVIN_SOURCE/tests/cli/common.bash"
command -v cc >/dev/null || { echo "skipped: no cc here" && exit 77; }
! grep -q __asan_init "$LEVIN" || { echo "skipped: a sanitizer has its own allocator" && exit 77; }
export OMP_NUM_THREADS=1
cat >fail.c <<'C'
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t);
static _Atomic long calls;
static long wanted = -1;
static int refuse(void)
{
    if (wanted < 0) wanted = getenv("FAIL_AT") ? atol(getenv("FAIL_AT")) : 0;
    if (++calls != wanted) return 0;
    errno = ENOMEM;
    return 1;
}
void *malloc(size_t n) { return refuse() ? NULL : __libc_malloc(n); }
void *calloc(size_t n, size_t m) { return refuse() ? NULL : __libc_calloc(n, m); }
void *realloc(void *p, size_t n) { return refuse() ? NULL : __libc_realloc(p, n); }
__attribute__((destructor)) static void tell(void)
{
    FILE *f = getenv("FAIL_COUNT") ? fopen(getenv("FAIL_COUNT"), "w") : NULL;
    if (f) fprintf(f, "%ld\n", (long)calls), fclose(f);
}
C
cc -shared -fPIC -O1 -o fail.so fail.c 2>cc.err || { cat cc.err && echo "skipped: this C library has no __libc_malloc" && exit 77; }
make_text
train run >out 2>err
python3 - <<'P'
import os, re, subprocess
from concurrent.futures import ThreadPoolExecutor
LEVIN = os.environ["LEVIN"]
# free memory of the machine and memory of the process differ each time
# the rates of this machine are measured once and cached, or again if the cache cannot be read
CHANGES = re.compile(rb'"(available|process|process_bytes)":[^,}]*|"time": *{[^}]*}|'
                     rb'\n(  free on this machine|  whole process|time:|  at [0-9.]+ .FLOP/s|  measured )[^\n]*')

def run(args, k, count="other"):
    p = subprocess.run([LEVIN, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                       env={**os.environ, "LD_PRELOAD": os.path.abspath("fail.so"), "FAIL_AT": str(k), "FAIL_COUNT": count})
    return p.returncode, CHANGES.sub(b"", p.stdout), p.stderr.decode("utf8", "replace")

small = "--model.n_layer=1 --model.n_embd=12 --model.n_head=2 --model.block_size=8 --data.path=text.txt"
for line in ("generate run --prompt=a --max-new-tokens=20", "generate run --prompt=a --max-new-tokens=20 --stop=zz --json",
             "plan " + small, "plan --json " + small, "evaluate run --json", "help options --json", "help generate"):
    args, wrong = line.split(), []
    code, whole, err = run(args, 0, "count")
    assert code == 0, (line, err)
    n, failed = int(open("count").read()), []
    assert n > 20, (line, n) # else the library has no effect
    def one(k):
        code, out, err = run(args, k)
        if code == 0 and out != whole: wrong.append("%d: ends with 0, and other output: %r" % (k, out[-200:]))
        if code != 0: failed.append(k)
        if code != 0 and "memory" not in err: wrong.append("%d: ends with %d, and says: %s" % (k, code, err))
    with ThreadPoolExecutor(2) as pool: # every fifth of them if there are many
        list(pool.map(one, [k for k in range(1, n + 1) if n < 300 or k % 5 == 0]))
    print("%s: %d allocations" % (line, n))
    assert failed and not wrong, (line, len(wrong), wrong[:5])
P
