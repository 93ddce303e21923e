"""Checks for a model of GPU that levin has not run on: bench/gpu --first.

Each check is a function. It passes if it returns a sentence, is skipped if it raises Skip with a reason, and fails if it raises
anything else or exceeds its limit in seconds. The other checks run in any case. Each check writes the output of its commands to a separate file. The
order: driver, kernels, training compared with the CPU's, equal bits, then time. Checks that measure no time run concurrently, because
compiling kernels needs most of theirs.

A folder that --pack has made needs only the driver and Python: it holds levin, its tests, and the libraries of both, with
NVRTC if this machine has it.
"""
import concurrent.futures
import copy
import glob
import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
LEVIN = ROOT / "build" / "levin"
TESTS = ROOT / "build" / "tests"
TINY = ["--data.kind=chars", "--model.kind=gpt2", "--model.n_layer=2", "--model.n_head=2", "--model.n_embd=64",
        "--model.block_size=32", "--model.dropout=0.1", "--trainer.batch_size=4", "--trainer.micro_batch_size=2",
        "--trainer.max_steps=20", "--trainer.limit_val_batches=2", "--quiet"]
GPT2 = {"124m": (12, 12, 768), "1558m": (48, 25, 1600)}


class Skip(Exception):
    pass


class Checks:
    """What a check may use."""

    def __init__(self, out, accelerator, scale):
        self.out, self.accelerator, self.scale = pathlib.Path(out), accelerator, scale
        self.until, self.log = 0.0, None
        self.environment = dict(os.environ)
        folders = [str(ROOT / "lib")] if (ROOT / "lib").is_dir() else []
        before = os.environ.get("LD_LIBRARY_PATH")
        self.environment["LD_LIBRARY_PATH"] = ":".join(([before] if before else []) + folders)

    def run(self, words, **variables):
        """What the command prints. It ends with the check's limit, with all that it has started."""
        words = [str(w) for w in words]
        self.log.write(f"$ {' '.join([*(f'{k}={v}' for k, v in variables.items()), *words])}\n".encode())
        self.log.flush()
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=self.log, start_new_session=True,
                                   env={**self.environment, **variables}, cwd=self.out)
        try:
            said, _ = process.communicate(timeout=max(0.0, self.until - time.monotonic()))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise Exception("did not end within its limit")
        self.log.write(said)
        if process.returncode:
            self.log.flush()
            raise Exception(f"status {process.returncode}: {self.last_word()}")
        return said.decode(errors="replace")

    def last_word(self):
        lines = pathlib.Path(self.log.name).read_text(errors="replace").strip().splitlines()
        wrong = [line for line in lines if "error" in line.lower()]
        return (wrong or lines or ["no message"])[-1][:160]

    def text(self):
        path = self.out / "text.txt"
        if not path.exists():
            path.write_text("".join(f"line {k}: {k * k % 997} of {'abcdefghij'[k % 10]} is it.\n" for k in range(4000)))
        return path

    def train(self, name, *keys, accelerator=None, **variables):
        """A run of the tiny model; its folder."""
        folder = self.out / "runs" / pathlib.Path(self.log.name).stem / name
        self.run([LEVIN, "train", *TINY, f"--data.path={self.text()}", f"--run_dir={folder}", "--overwrite",
                  f"--trainer.accelerator={accelerator or self.accelerator}", *keys], **variables)
        return folder

    def test(self, name, *prefix, **variables):
        program = TESTS / name
        if not program.exists():
            raise Skip(f"{program} is not installed")
        said = self.run([*prefix, program], LEVIN_DEVICE_BACKEND=self.accelerator, **variables)
        if "[       OK ]" not in said:
            raise Exception("the test compared nothing; its log says why")

    def bench(self, size, batch, *keys):
        layers, heads, channels = GPT2[size]
        found = json.loads(self.run(
            [LEVIN, "bench", "--model.kind=gpt2", f"--model.n_layer={layers}", f"--model.n_head={heads}",
             f"--model.n_embd={channels}", "--model.block_size=1024", "--model.vocab_size=50304", "--model.dropout=0",
             f"--trainer.batch_size={batch}", f"--trainer.accelerator={self.accelerator}", "--json", "--quiet", *keys]))
        return f"{found['best_s'] * 1e3:.1f} ms a step, {found['tokens_per_s']:,.0f} tokens/s"


def losses(folder):
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [row["loss"] for row in rows if "loss" in row]


def apart(a, b):
    a, b = losses(a), losses(b)
    if not a or len(a) != len(b):
        raise Exception(f"{len(a)} and {len(b)} losses")
    return max(abs(x - y) / abs(x) for x, y in zip(a, b))


def weights(folder):
    return hashlib.sha256((folder / "checkpoints" / "last" / "model.safetensors").read_bytes()).hexdigest()


def same(a, b):
    if weights(a) != weights(b):
        raise Exception("the weights differ")
    return "equal bits"


def program(name):
    if not shutil.which(name):
        raise Skip(f"{name} was not found")
    return name


def smi(c):
    said = c.run([program("nvidia-smi"), "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"])
    return said.strip().splitlines()[0]


def doctor(c):
    found = json.loads(c.run([LEVIN, "doctor", "--json", "--quiet"]))
    devices = [d for d in found.get("devices", []) if d["backend"] == "cuda"]
    if not devices:
        raise Exception("CUDA has no GPU here; `levin doctor` says why")
    return f"{devices[0]['name']}, {devices[0]['driver']}, {found['libraries']['libnvrtc']['version']}, " \
           f"{found['libraries']['libcublasLt']['version']}"


def compare_with_cpu(precision, within, *keys, **variables):
    """A check that compares the losses with those of the CPU."""
    def check(c):
        own = c.train("-".join([precision, *variables.values()]), f"--trainer.precision={precision}", *keys, **variables)
        theirs = c.train("cpu", "--trainer.precision=32-true", *keys, accelerator="cpu")
        found = apart(theirs, own)
        if not found <= within:
            raise Exception(f"losses differ from the CPU's by {found:.1e}, expected at most {within:.0e}")
        return f"losses within {found:.1e} of the CPU's"
    return check


def twice(c):
    return same(c.train("once"), c.train("again"))


def graphs(c):
    return same(c.train("graphs"), c.train("walked", LEVIN_CUDA_GRAPHS="off"))


def waits(c):
    return same(c.train("graphs"), c.train("waits", LEVIN_CUDA_WAIT="1"))


def checkpoints(c):
    return same(c.train("end"), c.train("each", "--checkpoint.every_n_steps=1"))


def resume(c):
    """Killed as soon as it has a checkpoint, and started again."""
    folder, keys = c.out / "runs" / "killed", [f"--data.path={c.text()}", "--checkpoint.every_n_steps=2"]
    words = [LEVIN, "train", *TINY, *keys, f"--trainer.accelerator={c.accelerator}", f"--run_dir={folder}"]
    process = subprocess.Popen([str(w) for w in [*words, "--overwrite"]], stdout=c.log, stderr=c.log, env=c.environment,
                               cwd=c.out, start_new_session=True)
    while process.poll() is None and not (folder / "checkpoints" / "last").exists() and time.monotonic() < c.until:
        time.sleep(0.01)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    c.run([LEVIN, "train", folder, "--resume"])
    return same(c.train("whole", "--checkpoint.every_n_steps=2"), folder)


def sanitizer(tool):
    def check(c):
        for operation in ("attention", "linear", "linear_cross_entropy", "layernorm"):
            c.test("test_devices_bf16", program("compute-sanitizer"), "--tool", tool, "--error-exitcode", "9",
                   LEVIN_DEVICE_TEST=operation)
    return check


def counters(c):
    metrics = "gpu__time_duration.sum,dram__bytes_read.sum,dram__bytes_write.sum," \
              "sm__inst_executed_pipe_tensor.sum,sm__warps_active.avg.pct_of_peak_sustained_active"
    c.run([program("ncu"), "--clock-control", "none", "--cache-control", "none", "--csv", "--metrics", metrics, LEVIN,
           "bench", "--model.kind=gpt2", "--model.n_layer=12", "--model.n_head=12", "--model.n_embd=768",
           "--model.block_size=1024", "--model.vocab_size=50304", "--model.dropout=0", "--trainer.batch_size=32",
           "--trainer.precision=bf16-mixed", f"--trainer.accelerator={c.accelerator}", "--steps=1", "--quiet"])
    return f"one line per kernel in {pathlib.Path(c.log.name).name}"


# Attention of several tiles, with the heads of GPT-2 and of Llama.
HEADS_64 = ("--model.n_embd=128", "--model.block_size=256")
HEADS_128 = ("--model.n_embd=256", "--model.block_size=256")
MIXED, TRUE = "--trainer.precision=bf16-mixed", ("--trainer.precision=bf16-true", "--optimizer.state=bf16")
CONCURRENT, ALONE = False, True  # ALONE: the check measures time, so nothing else may run
# name, time limit in seconds, CONCURRENT or ALONE, function
CHECKS = [
    ("smi", 20, CONCURRENT, smi),
    ("doctor", 60, CONCURRENT, doctor),
    ("kernels-once", 60, CONCURRENT, lambda c: c.test("test_devices", LEVIN_DEVICE_TEST="once")),
    ("kernels-bf16-once", 60, CONCURRENT, lambda c: c.test("test_devices_bf16", LEVIN_DEVICE_TEST="once")),
    ("kernels", 150, CONCURRENT, lambda c: c.test("test_devices")),
    ("kernels-bf16", 150, CONCURRENT, lambda c: c.test("test_devices_bf16")),
    ("train-32", 60, CONCURRENT, compare_with_cpu("32-true", 1e-5)),
    ("train-bf16", 60, CONCURRENT, compare_with_cpu("bf16-mixed", 2e-2)),
    ("train-fp16", 60, CONCURRENT, compare_with_cpu("16-mixed", 2e-2)),
    ("train-heads-64", 90, CONCURRENT, compare_with_cpu("bf16-mixed", 2e-2, *HEADS_64)),
    ("train-heads-128", 90, CONCURRENT, compare_with_cpu("bf16-mixed", 2e-2, *HEADS_128)),
    ("train-own-products", 60, CONCURRENT, compare_with_cpu("32-true", 1e-5, LEVIN_CUBLASLT="off")),
    ("twice", 60, CONCURRENT, twice),
    ("no-graphs", 60, CONCURRENT, graphs),
    ("waits", 60, CONCURRENT, waits),
    ("bench-124m-4", 60, ALONE, lambda c: c.bench("124m", 4, MIXED, "--steps=10")),
    ("bench-124m-32", 90, ALONE, lambda c: c.bench("124m", 32, MIXED, "--steps=10")),
    ("parts-124m-32", 90, ALONE, lambda c: c.bench("124m", 32, MIXED, "--steps=5", "--parts")),
    ("memcheck", 200, CONCURRENT, sanitizer("memcheck")),
    ("racecheck", 200, CONCURRENT, sanitizer("racecheck")),
    ("synccheck", 200, CONCURRENT, sanitizer("synccheck")),
    ("counters", 300, ALONE, counters),
    ("bench-1558m-16", 120, ALONE, lambda c: c.bench("1558m", 16, MIXED, "--steps=4")),
    ("bench-1558m-16-true", 120, ALONE, lambda c: c.bench("1558m", 16, *TRUE, "--steps=4")),
    ("memory-1558m-26", 120, ALONE, lambda c: c.bench("1558m", 26, MIXED, "--steps=2")),
    ("checkpoints", 90, CONCURRENT, checkpoints),
    ("resume", 120, CONCURRENT, resume),
]


def run_check(c, k):
    """The result of check k, as a row of the table."""
    name, limit, _, check = CHECKS[k]
    c, begin = copy.copy(c), time.monotonic()
    c.until = begin + limit * c.scale
    with open(c.out / f"{k:02}-{name}.log", "w+b") as c.log:
        try:
            result, said = "pass", check(c) or ""
        except Skip as why:
            result, said = "skip", str(why)
        except Exception as why:  # of any kind: the other checks must run
            result, said = "FAIL", str(why)
    print(f"{result}  {name}: {said}", flush=True)
    return name, result, time.monotonic() - begin, said


def first(out, only, accelerator, scale):
    """True: no check failed."""
    unknown = set(only or ()) - {name for name, *_ in CHECKS}
    if unknown:
        print(f"bench/gpu: --only {','.join(sorted(unknown))} names no check; the checks are: {' '.join(n for n, *_ in CHECKS)}")
        return False
    c = Checks(out, accelerator, scale)
    c.out = c.out.resolve()
    c.out.mkdir(parents=True, exist_ok=True)
    c.text()
    wanted = [k for k, (name, *_) in enumerate(CHECKS) if not only or name in only]
    alone = [k for k in wanted if CHECKS[k][2] == ALONE]
    with concurrent.futures.ThreadPoolExecutor(max(1, (os.cpu_count() or 1) // 2)) as pool:
        table = list(pool.map(lambda k: run_check(c, k), [k for k in wanted if k not in alone]))
    table += [run_check(c, k) for k in alone]
    print(f"\n{'check':20} {'result':6} {'s':>6}  result; complete logs are in {c.out}")
    for name, result, seconds, said in table:
        print(f"{name:20} {result:6} {seconds:6.1f}  {said}")
    count = {r: sum(t[1] == r for t in table) for r in ("pass", "FAIL", "skip")}
    print(f"{count['pass']} passed, {count['FAIL']} failed, {count['skip']} skipped")
    return not count["FAIL"]


def libraries(program_file):
    """The libraries that the program is linked with, except those of the C library, which must match the machine's kernel and
    loader."""
    own = ("libc.so", "libm.so", "ld-linux", "libdl.so", "libpthread.so", "librt.so", "linux-vdso")
    said = subprocess.run(["ldd", str(program_file)], capture_output=True, text=True, check=True).stdout
    words = [line.split() for line in said.splitlines() if "=> /" in line]
    return [w[2] for w in words if not w[0].startswith(own)]


def pack(folder):
    """Copy levin, its tests and their libraries into a folder that needs only the driver and Python."""
    to = pathlib.Path(folder).resolve()
    programs = [LEVIN, *(TESTS / n for n in ("test_devices", "test_devices_bf16") if (TESTS / n).exists())]
    for where in (to / "build" / "tests", to / "lib", to / "bench"):
        where.mkdir(parents=True, exist_ok=True)
    for one in programs:
        target = to / one.relative_to(ROOT)
        shutil.copy2(one, target)
        if shutil.which("strip"):
            subprocess.run(["strip", "--strip-debug", str(target)], check=True)
        for library in libraries(one):
            shutil.copy2(library, to / "lib" / pathlib.Path(library).name)
    found = json.loads(subprocess.run([LEVIN, "doctor", "--json", "--quiet"], capture_output=True, check=True).stdout)
    nvrtc = found["libraries"]["libnvrtc"]["file"]
    candidates = [nvrtc] if nvrtc and os.path.exists(nvrtc) else sorted(
        glob.glob(str(ROOT / "parts" / "devices" / "lib" / "python3*" / "site-packages" / "nvidia" / "*" / "lib" /
                      "libnvrtc.so.*")))
    for library in candidates[-1:]:
        for part in glob.glob(str(pathlib.Path(library).parent / "libnvrtc*.so*")):
            shutil.copy2(part, to / "lib" / pathlib.Path(part).name)
    for script in ("gpu", "gpu_first.py", "gpu_once", "gpu_peaks.py"):
        shutil.copy2(ROOT / "bench" / script, to / "bench" / script)
    size = sum(f.stat().st_size for f in to.rglob("*") if f.is_file())
    print(f"{to}: {size / 2**20:.0f} MiB, {'with' if candidates else 'without'} NVRTC; there: bench/gpu --first")
