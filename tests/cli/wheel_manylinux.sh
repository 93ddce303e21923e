# tools/make_wheel: the wheel is for glibc 2.17, brings its libraries, has the same bytes twice, and works in fresh environments
# of every Python that is here, with no compiler on PATH.
# label: soak (ten minutes of one core where ccache knows nothing, then half a minute)
. "$LEVIN_SOURCE/tests/cli/wheel.bash"
[ "$(uname -m)" = x86_64 ] || { echo "skipped: the wheel that is tested is for x86_64" && exit 77; }
[ -x "$LEVIN_SOURCE/parts/zig/ziglang/zig" ] || python3 -c 'import ziglang' 2>/dev/null ||
    { echo "skipped: no ziglang here (tools/setup.sh --dev installs it)" && exit 77; }
WHEEL_FOLDER=$PWD/dist "$LEVIN_SOURCE/tools/make_wheel" x86_64 >build.log 2>&1 || { tail -n 30 build.log && exit 1; }
wheel=$(echo dist/*-py3-none-manylinux2014_x86_64.whl)
check [ -f "$wheel" ]
python3 -m zipfile -e "$wheel" files
program=$(echo files/*.data/scripts/levin) library=files/levin/lib/liblevin.so
for name in LICENSE jansson.LICENSE libyaml.LICENSE; do check [ -s files/*.dist-info/licenses/$name ]; done
if grep -q 'uPlot (v1\.' files/*.data/scripts/levin; then check [ -s files/*.dist-info/licenses/uplot.LICENSE ]; fi
check [ "$(stat -c %s "$program")" -lt 6000000 ]

# the loader needs only the C library, and no symbol that glibc 2.17 lacks
for file in "$program" "$library"; do
    objdump -p "$file" | sed -n 's/^ *NEEDED *//p' >needed
    check [ -s needed ]
    check [ -z "$(grep -vE '^(lib(c|m|dl|rt|pthread)\.so\.[0-9]+|ld-linux-x86-64\.so\.2)$' needed)" ]
    newest=$(objdump -T "$file" | grep -oE 'GLIBC_[0-9.]+' | sort -uV | tail -1)
    check [ "$(printf '%s\nGLIBC_2.17\n' "$newest" | sort -V | tail -1)" = GLIBC_2.17 ]
done

# a second build has the same bytes
built=$LEVIN_SOURCE/build-wheel/x86_64
SOURCE_DATE_EPOCH=$(git -C "$LEVIN_SOURCE" log -1 --format=%ct 2>/dev/null || echo 315532800) python3 "$LEVIN_SOURCE/python/build_levin.py" \
    --tag manylinux2014_x86_64 --build "$built/build" --parts "$built/parts" --out again >/dev/null
cmp "$wheel" again/*.whl

mapfile -t here < <(pythons)
install_wheel "$wheel" ${here[@]+"${here[@]}"}
