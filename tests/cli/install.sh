# install.sh - the result of `make install` is complete: the program runs there, and a user's program links.
# label: user
build=$(dirname "$LEVIN")
[ -f "$build/cmake_install.cmake" ] || { echo "skipped: $LEVIN is not in its build folder"; exit 77; }
cmake --install "$build" --prefix "$PWD/there" >/dev/null
there/bin/levin --version
[ -n "$(find there -name liblevin.a)" ] || { echo "liblevin.a is not installed"; exit 1; }
[ -n "$(find there -path '*bash-completion*' -name levin)" ] || { echo "the completion is not installed"; exit 1; }

# a user's program finds it by pkg-config, also after the folder has moved
mv there elsewhere
command -v pkg-config >/dev/null || { echo "pkg-config is not installed: levin.pc is left out"; exit 0; }
[ -z "${LVN_SANITIZE:-}" ] || exit 0 # a program without the sanitizer's runtime cannot open the library
at=$(dirname "$(find "$PWD/elsewhere" -name levin.pc)")
export PKG_CONFIG_PATH=$at
[ "$(pkg-config --modversion levin)" = "$(elsewhere/bin/levin --version | cut -d' ' -f2)" ]
for i in $(seq 400); do echo "the cat sat on the mat, and the dog on the log"; done >text
${CC:-cc} "$LEVIN_SOURCE/examples/own-model.c" -o shared $(pkg-config --cflags --libs levin)
(unset LD_LIBRARY_PATH && ./shared text 5) # without it: the flags tell the loader where the library is
rm -r runs
mkdir static && cp "$(dirname "$at")/liblevin.a" static
${CC:-cc} "$LEVIN_SOURCE/examples/own-model.c" -o alone $(pkg-config --cflags levin) -Lstatic $(pkg-config --static --libs-only-l --libs-only-other levin)
./alone text 5
