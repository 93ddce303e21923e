# python/build_levin.py: it packs a built levin as a wheel, the same bytes twice, which works in fresh environments of
# two Pythons; a source distribution contains all files that the build reads.
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
code 2 python3 "$LEVIN_SOURCE/python/build_levin.py" --tag any
says "--tag also needs --build FOLDER" err
tar xzf sources/*.tar.gz
for file in pyproject.toml build_levin.py levin/__init__.py source/CMakeLists.txt source/include/levin.h source/tools/setup.sh; do
    check [ -f levin_train-*/$file ]
done
cmake -S levin_train-*/source -B configured -DCMAKE_BUILD_TYPE=Release >log 2>&1 || fail "$(tail -n 20 log)"

# The flags with which pip's build compiles: those of the user, and a folder whose name has a space. A step that fails is
# named.
PYTHONPATH=$LEVIN_SOURCE/python CFLAGS="-march=native -g" python3 -B - <<'EOF'
import shlex
from pathlib import Path

import build_levin
steps = []
real, build_levin.run = build_levin.run, lambda step, command, **variables: steps.append((step, command))
build_levin.source_folder = lambda: Path("/home/a user/levin")
build_levin.build_here("folder")
flags = [c for _, command in steps for c in command if str(c).startswith("-DCMAKE_C_FLAGS=")][0].split("=", 1)[1]
assert shlex.split(flags) == ["-march=native", "-g", "-ffile-prefix-map=/home/a user/levin/="], flags
try:
    real("configuring (cmake)", ["bash", "-c", "exit 3"])
    raise SystemExit("a step that failed was ignored")
except SystemExit as error:
    assert str(error) == "error: building levin failed at configuring (cmake): see the lines above", error
EOF
