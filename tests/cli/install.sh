# install.sh - what `make install` lays down is complete: the program runs there, and a program of one's own links.
build=$(dirname "$LEVIN")
[ -f "$build/cmake_install.cmake" ] || { echo "skipped: $LEVIN does not lie in its build folder"; exit 77; }
cmake --install "$build" --prefix "$PWD/there" >/dev/null
there/bin/levin --version
[ -n "$(find there -name liblevin.a)" ] || { echo "liblevin.a is not installed"; exit 1; }
[ -n "$(find there -path '*bash-completion*' -name levin)" ] || { echo "the completion is not installed"; exit 1; }
