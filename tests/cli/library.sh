# The shared library exports what levin.h declares and nothing else, and a C program works with it alone.
# label: user
build=$(dirname "$LEVIN")
library=$build/liblevin.so
[ -n "${LVN_SANITIZE:-}" ] && exit 77 # a program without the sanitizer's runtime cannot open it
grep -o 'levin_[a-z0-9_]*(' "$LEVIN_SOURCE/include/levin.h" | tr -d '(' | sort -u > wanted
nm -D --defined-only "$library" | awk '{print $3}' | sort > shown
diff wanted shown || { echo "the library does not show what levin.h declares"; exit 1; }

${CC:-cc} -I "$LEVIN_SOURCE/include" "$LEVIN_SOURCE/examples/own-model.c" -L "$build" -llevin -o own -Wl,-rpath,"$build"
for i in $(seq 400); do echo "the cat sat on the mat, and the dog on the log"; done > text
./own text 100 > out
tail -1 out | awk '{exit !($NF > 0 && $NF < 3)}' || { echo "it did not learn:"; cat out; exit 1; }
