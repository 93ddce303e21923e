# python/build_levin.py: it packs a built levin as a wheel, the same bytes twice, which works in fresh environments of
# two Pythons; a source distribution has all that the build reads.
. "$LEVIN_SOURCE/tests/cli/wheel.bash"
[ -z "${LVN_SANITIZE:-}" ] || { echo "skipped: a library with a sanitizer needs it in the program" && exit 77; }
mkdir built
strip -o built/levin "$LEVIN"
strip -o built/liblevin.so "$(dirname "$LEVIN")/liblevin.so"
export SOURCE_DATE_EPOCH=1700000000
pack() { python3 "$LEVIN_SOURCE/python/build_levin.py" --tag "linux_$(uname -m)" --build built --out "$1" >/dev/null; }
pack dist
wheel=$(echo dist/*-py3-none-linux_*.whl)
pack again
cmp "$wheel" again/*.whl
mapfile -t here < <(pythons)
install_wheel "$wheel" "${here[@]::1}" "${here[@]:1:1}" # each costs seconds; wheel_manylinux.sh tries all

python3 "$LEVIN_SOURCE/python/build_levin.py" --out sources >/dev/null
tar xzf sources/*.tar.gz
for file in pyproject.toml build_levin.py levin/__init__.py source/CMakeLists.txt source/include/levin.h source/tools/setup.sh; do
    check [ -f levin_train-*/$file ]
done
cmake -S levin_train-*/source -B configured -DCMAKE_BUILD_TYPE=Release >log 2>&1 || fail "$(tail -n 20 log)"
