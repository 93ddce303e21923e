"""container.py SPECIFICATION - one container of a pod, as kubelet.py starts it: the process 1 of a process namespace, in the
network, host name and shared memory of its pod, over its own root. Ends with its exit code, or 128 plus a signal.

The root is an overlay over the folders of the image and what is written there is lost at the end. SPECIFICATION is a JSON file;
kubelet.py says what is in it. Leaves out control groups: nothing limits memory or processors."""
import ctypes, json, os, signal, sys

NEWNS, NEWUTS, NEWIPC, NEWPID, NEWNET = 0x00020000, 0x04000000, 0x08000000, 0x20000000, 0x40000000
RDONLY, NOSUID, NODEV, REMOUNT, BIND, REC, PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
libc = ctypes.CDLL(None, use_errno=True)


def checked(result, what):
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def mount(source, target, kind=None, flags=0, data=None):
    as_bytes = [None if x is None else str(x).encode() for x in (source, target, kind, data)]
    checked(libc.mount(as_bytes[0], as_bytes[1], as_bytes[2], ctypes.c_ulong(flags), as_bytes[3]), f"mount {source} {target}")


def bind(source, target, read_only=False):
    """source, a file or folder, seen at target, which is made if it is not there."""
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if not os.path.lexists(target):
            open(target, "w").close()
    mount(source, target, None, BIND | REC)
    if read_only:
        mount(None, target, None, BIND | REMOUNT | RDONLY)


def make_root(spec):
    root = spec["root"]
    for name in ("upper", "work", "merged"):
        os.makedirs(f"{root}/{name}", exist_ok=True)
    mount(None, "/", None, REC | PRIVATE)
    data = f"lowerdir={':'.join(spec['layers'])},upperdir={root}/upper,workdir={root}/work"
    merged = root + "/merged"
    mount("overlay", merged, "overlay", 0, data)
    for name in ("proc", "sys", "dev", "tmp", "etc"):
        os.makedirs(f"{merged}/{name}", exist_ok=True)
    bind("/sys", merged + "/sys")
    bind("/dev", merged + "/dev")
    mount("tmpfs", merged + "/dev/shm", "tmpfs", NOSUID | NODEV, f"size={spec['shm_bytes']}")
    mount("tmpfs", merged + "/run", "tmpfs", NOSUID | NODEV, "mode=755")  # no socket of this machine is seen
    for name in ("hosts", "resolv.conf", "hostname"):
        if os.path.islink(f"{merged}/etc/{name}"):
            os.unlink(f"{merged}/etc/{name}")
        bind(f"{spec['pod']}/{name}", f"{merged}/etc/{name}")
    for volume in spec["mounts"]:
        bind(volume["source"], merged + volume["target"], volume["read_only"])
    return merged


def first_process(spec):
    os.setsid()
    mount("proc", "/proc", "proc")
    if spec["read_only"]:
        mount(None, "/", None, BIND | REMOUNT | RDONLY)
    os.setgroups(spec["groups"])
    if spec["no_new_privileges"]:
        checked(libc.prctl(38, 1, 0, 0, 0), "prctl")
    os.setgid(spec["gid"])
    os.setuid(spec["uid"])
    os.chdir(spec["directory"])
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores
        signal.signal(number, signal.SIG_DFL)
    os.execvpe(spec["command"][0], spec["command"], spec["environment"])


def main():
    with open(sys.argv[1]) as file:
        spec = json.load(file)
    for name, flag in (("net", NEWNET), ("uts", NEWUTS), ("ipc", NEWIPC)):
        where = os.open(f"/proc/{spec['sandbox']}/ns/{name}", os.O_RDONLY)
        checked(libc.setns(where, flag), "setns " + name)
        os.close(where)
    checked(libc.unshare(NEWNS | NEWPID), "unshare")
    record = os.open(spec["record"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    merged = make_root(spec)
    os.chroot(merged)
    os.chdir("/")
    child = os.fork()
    if child == 0:
        os.close(record)
        try:
            first_process(spec)
        except OSError as error:
            print(f"container {spec['command'][:1]}: {error}", file=sys.stderr, flush=True)
            os._exit(127 if isinstance(error, FileNotFoundError) else 126)
    os.write(record, b"%d\n" % child)
    os.close(record)
    status = os.waitpid(child, 0)[1]
    os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))


main()
