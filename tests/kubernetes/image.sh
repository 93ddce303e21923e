# The images, built by buildah over a root file system of Debian, twice with equal digests; their entry point as process 1 of an
# unprivileged user on a read-only root. label: soak
. "$LEVIN_SOURCE/tests/cli/common.bash"
skip() { echo "skipped: $*"; exit 77; }
for part in buildah mmdebstrap unshare nsenter setpriv; do
    command -v $part >/dev/null || skip "no $part (apt install buildah mmdebstrap util-linux)"
done
[ "$(id -u)" = 0 ] || skip "building a root file system of Debian and mounting require the user root"
sources=/etc/apt/sources.list.d/debian.sources
[ -f $sources ] || sources=/etc/apt/sources.list
[ -s "$sources" ] || skip "this machine's apt has no sources of Debian"
mkdir containers data
printf '[storage]\ndriver = "overlay"\ngraphroot = "%s/store"\nrunroot = "%s/run"\n' "$PWD/containers" "$PWD/containers" >storage.conf
export CONTAINERS_STORAGE_CONF=$PWD/storage.conf BUILDAH_ISOLATION=chroot BUILDER=buildah SOURCE_DATE_EPOCH=1700000000
clean() { buildah umount -a >/dev/null 2>&1; buildah rm -a >/dev/null 2>&1; }
trap clean EXIT

# --- the base: a root file system with the apt settings of this machine, because only these are known to reach a Debian mirror ---
. /etc/os-release
mmdebstrap --quiet --variant=minbase --mode=root --aptopt='Acquire::Check-Valid-Until "false"' "$VERSION_CODENAME" root.tar "$sources" >log 2>&1 ||
    { cat log && skip "Debian's packages cannot be reached"; }
base=$(buildah from scratch)
buildah add -q "$base" root.tar / >/dev/null
buildah config --env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$base"
buildah commit -q "$base" levin-test:base >/dev/null
rm root.tar

# --- two builds without a common cache have equal digests, and add less than 60 MB ---
about() { buildah inspect --type image --format "$2" "$1"; } # IMAGE FORMAT
bytes() { buildah images --json "$1" | python3 -c 'import json,sys; print(json.load(sys.stdin)[0]["size"].replace(" ", ""))' | numfmt --from=auto --suffix=B; }
export BASE=localhost/levin-test:base
for i in 1 2; do
    IMAGE=levin-test:$i "$LEVIN_SOURCE/tools/make_image" --no-cache --layers >log 2>&1 || { tail -n 30 log && fail "the image is not built"; }
    says "image: levin-test:$i" log
done
one=$(about levin-test:1 '{{.FromImageDigest}}')
check [ -n "$one" ]
check [ "$(about levin-test:2 '{{.FromImageDigest}}')" = "$one" ]
more=$(($(bytes levin-test:1 | tr -d B) - $(bytes levin-test:base | tr -d B)))
echo "digest $one, $((more / 1000000)) MB beside the base"
check [ $more -gt 5000000 ] && check [ $more -lt 60000000 ]
check [ "$(about levin-test:1 '{{.OCIv1.Config.User}} {{.OCIv1.Config.Entrypoint}}')" = "65532:65532 [levin]" ]

# --- the entry point, as a kubelet starts it with the chart's securityContext: process 1, user 65532 without capabilities, root
# read-only, its scratch folder and /tmp mounted ---
cat >inside.sh <<'IN' # ROOT DATA SITE WORD...
root=$1 data=$2 site=$3
shift 3
ip link set lo up
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/dev/shm"
mount -t tmpfs tmpfs "$root/tmp"
mount --bind "$data" "$root/var/lib/levin"
[ -z "$site" ] || mount --bind "$site" "$root/mnt"
mount -o remount,bind,ro "$root"
exec setpriv --no-new-privs --bounding-set=-all,+sys_chroot,+setuid,+setgid \
    chroot --userspec=65532:65532 --groups=65532 "$root" env -C /var/lib/levin "$@"
IN
root=$(buildah mount "$(buildah from levin-test:1)")
chown 65532:65532 data
site=
words() { # WORD...: set `whole` to the command that runs WORD... in the container, as a replacement of its entry point
    whole=(env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/var/lib/levin LEVIN_CACHE=/var/lib/levin/cache
        OMP_NUM_THREADS=1 ${more_env[@]+"${more_env[@]}"} unshare -m -n -u -i -p -f --kill-child --propagation private
        bash -eu inside.sh "$root" "$PWD/data" "$site" "$@")
}
contained() {
    words "$@"
    "${whole[@]}"
}
more_env=()
make_text
mv text.txt data/
code 0 contained levin --version
says "levin " out
contained sh -c 'id -u; grep -E "^(CapEff|CapBnd|NoNewPrivs)" /proc/self/status; touch /usr/x' >out 2>err && fail "the root can be written"
says 65532 out
says $'CapEff:\t0000000000000000' out
says "Read-only file system" err
code 0 contained levin doctor
says "libcurl/" out
says "OpenSSL " out
arguments tiny
code 0 contained levin "${all[@]}"
check [ "$(stat -c %u data/tiny/checkpoints/last/model.safetensors)" = 65532 ]
train native --data.path=data/text.txt >out 2>err
same_weights data/tiny native # the compiler of the image is another build of the same sources
arguments ranks --trainer.batch_size=8
code 0 contained levin launch -n 2 -- "${all[@]}"
check [ -s data/ranks/checkpoints/last/model.safetensors ]

# --- SIGTERM to process 1, as when a pod is drained: a checkpoint is saved, exit code 75; also under levin launch, as in the chart ---
endless=(--trainer.max_steps=1000000000 --checkpoint.every_n_steps=1000000 --trainer.val_check_interval=0)
for how in alone launched; do
    arguments $how "${endless[@]}"
    [ $how = alone ] || all=(launch -n 1 -- "${all[@]}")
    words levin "${all[@]}"
    "${whole[@]}" >out 2>err &
    pid=$!
    wait_rows data/$how 3
    first=$(pgrep -P $pid -x levin)
    check [ "$(awk '/^NSpid:/ { print $NF }' /proc/"$first"/status)" = 1 ]
    check [ "$(awk '/^Uid:/ { print $2 }' /proc/"$first"/status)" = 65532 ]
    kill -TERM "$first"
    ended
    [ "$got" = 75 ] || { cat out err && fail "$how: exit $got"; }
    says "stopped on request after step" err
    check [ -s data/$how/checkpoints/last/model.safetensors ]
done
clean

# --- for GPUs: NVRTC and cuBLASLt are in the base image (here doubles); the driver and NCCL come from the host at run time ---
doubles=$LEVIN_BUILD/tests/double
[ -e "$doubles/libnccl.so.2" ] || skip "the rest needs the doubles of CUDA's libraries (cmake --build build --target everything)"
gpu=$(buildah from levin-test:base)
buildah copy -q "$gpu" "$doubles/libnvrtc.so.13" "$doubles/libcublasLt.so.13" /usr/local/lib/ >/dev/null
buildah run "$gpu" -- ldconfig
buildah commit -q "$gpu" levin-test:cuda-base >/dev/null
BASE=localhost/levin-test:cuda-base BUILD_BASE=localhost/levin-test:base CUDA=1 IMAGE=levin-test:cuda "$LEVIN_SOURCE/tools/make_image" --layers >log 2>&1 ||
    { tail -n 30 log && fail "the image for GPUs is not built"; }
says "Using cache" log # the build stages of both files are identical
root=$(buildah mount "$(buildah from levin-test:cuda)")
code 0 contained levin doctor
check grep -qE "^libnccl +left out, not found" out
check grep -qE "^libcuda +left out, not found" out
check grep -qE "^libnvrtc .*/usr/local/lib/libnvrtc.so.13" out
arguments gpu --trainer.accelerator=cuda
code 1 contained levin "${all[@]}"
one_error
says "libcuda" err
mkdir site
cp "$doubles/libcuda.so.1" "$doubles/libnccl.so.2" site/
site=$PWD/site more_env=(LD_LIBRARY_PATH=/mnt)
code 0 contained levin doctor
check grep -qE "^libnccl .*/mnt/libnccl.so.2" out
