# tools/setup.sh --prefix as an ordinary user of Debian: /sbin is not in PATH, and apt-get may have nothing to download.
# label: user
. "$LEVIN_SOURCE/tests/cli/common.bash"
[ -f "$LEVIN_SOURCE/tools/setup.sh" ] || { echo "skipped: $LEVIN_SOURCE has no tools/setup.sh"; exit 77; }
for tool in cmake ninja make cc; do command -v $tool >/dev/null || { echo "skipped: there is no $tool"; exit 77; }; done

# libarchive is found without ldconfig in PATH: all commands but those of /sbin
mkdir bin
for folder in ${PATH//:/ }; do
    case $folder in */sbin) ;; /*) ln -s "$folder"/* bin/ 2>/dev/null || true ;; esac
done
rm -f bin/ldconfig bin/sudo
without_sbin() { PATH=$PWD/bin "$@"; }
if PATH=$PATH:/usr/sbin:/sbin ldconfig -p | grep -q 'libarchive.so.13'; then
    without_sbin bash "$LEVIN_SOURCE/tools/setup.sh" --check >out 2>err || true
    check [ "$(grep -c '^setup: missing:.* archive' out)" = 0 ]
fi

# the compiler does not find cmocka, but apt-get reports it as installed: there is no error of dpkg-deb, and the messages are
# correct
cat >hiding-cc <<'END'
#!/bin/bash
for word; do [ "$word" != -lcmocka ] || exit 1; done
exec cc "$@"
END
printf '#!/bin/sh\nexit 0\n' >apt
printf '#!/bin/sh\necho "dpkg-deb: called with $*" >&2; exit 2\n' >dpkg-deb
chmod +x hiding-cc apt dpkg-deb
rm -f bin/apt-get bin/apt-cache bin/dpkg-deb
mv dpkg-deb bin/ && cp apt bin/apt-get && cp apt bin/apt-cache
mkdir -p parts/share/uplot && : >parts/share/uplot/uPlot.iife.min.js # nothing is downloaded
setup() { CC=$PWD/hiding-cc without_sbin bash "$LEVIN_SOURCE/tools/setup.sh" --prefix parts; }
code 0 setup
says "apt-get reports libcmocka-dev as installed" out
says "setup: no cmocka: the tests that need it are skipped" out
says "setup: done. Now: . $PWD/parts/env.sh && make" out
lacks "dpkg-deb" err
lacks "libarchive" out

# env.sh adds no empty entry, which would be the current folder
variable() { (. parts/env.sh && printf '%s\n' "$LD_LIBRARY_PATH"); }
unset LD_LIBRARY_PATH
check [ "$(variable)" = "$PWD/parts/lib" ]
LD_LIBRARY_PATH=/opt/lib
check [ "$(variable)" = "$PWD/parts/lib:/opt/lib" ]

# dnf gets only names that it knows, because it installs nothing if one is unknown
rm -f bin/apt-get bin/apt-cache bin/dpkg-deb bin/dnf bin/ninja bin/id
mkdir -p tree/tools tree/parts/uplot && : >tree/parts/uplot/uPlot.iife.min.js
cp "$LEVIN_SOURCE/tools/setup.sh" tree/tools
printf '#!/bin/sh\necho "${USER_ID:-0}"\n' >bin/id
cat >bin/dnf <<'END'
#!/bin/bash
[ "$*" != "-q list ninja-build" ] || exit "$NO_NINJA"
[ "$1" != -y ] || echo "dnf: $*"
END
chmod +x bin/id bin/dnf
setup() { CC=$PWD/hiding-cc without_sbin bash tree/tools/setup.sh; }
NO_NINJA=1 code 0 setup
says "dnf: -y install libcmocka-devel" out
lacks "ninja-build" out
NO_NINJA=0 code 0 setup
says "ninja-build" out
USER_ID=1000 code 1 setup
says "setup: installing packages requires root or sudo" err
