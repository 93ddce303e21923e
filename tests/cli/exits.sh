# Every exit code except 0 comes with an error message: every command with every wrong option; variables of launchers that do not exist;
# levin launch over launchers that exit, die or hang; signals.
# label: user
. "$LEVIN_SOURCE/tests/cli/common.bash"
export OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 HOME=$PWD
python3 - "$LEVIN_SOURCE" <<'P'
import os, re, stat, subprocess, sys
from concurrent.futures import ThreadPoolExecutor
LEVIN, SOURCE = os.environ["LEVIN"], sys.argv[1]
OWN = re.compile(r"^(LEVIN_(?!SOURCE)|OMPI_|PMI|PMIX_|SLURM_|MV2_|JSM_|FLUX_|MPI_|RANK$|WORLD_SIZE$|LOCAL_|JOB_|MASTER_)")
CLEAN = {k: v for k, v in os.environ.items() if not OWN.match(k) or k == "LEVIN"}
wrong, tried = [], 0

def said(err, code):
    """The sentence of an error; 75 is none."""
    lines = [l for l in err.splitlines() if re.match(r"(\[\d+\] )?error: \S+ \S+", l)]
    return len(lines) == 1 or (code == 75 and "stopped on request" in err)

def run(args, env=(), want=None):
    """Run a command that must fail with one sentence."""
    global tried
    tried += 1
    try:
        p = subprocess.run([LEVIN, *args], env={**CLEAN, **dict(env)}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, timeout=600)
    except subprocess.TimeoutExpired:
        return wrong.append("%s levin %s: does not end" % (dict(env), " ".join(args)))
    err, code = p.stderr.decode("utf8", "replace"), p.returncode
    if code == 0 or (want is not None and code != want) or not said(err, code):
        wrong.append("%s levin %s: exit %d%s\n%s" % (dict(env), " ".join(args), code,
                                                   "" if want is None else ", wanted %d" % want, err))

jobs = []
def fails(*args, **more):
    jobs.append((args, more))

# --- every command of `levin help`, with wrong options and operands ---
pages = subprocess.run([LEVIN, "help", "--options-markdown"], stdout=subprocess.PIPE, check=True).stdout.decode()
keys, rest = pages.split("\n# Commands\n")
parts = re.split(r"\n## levin ", rest)
NONSENSE = {"whole": "x", "number": "x", "two": "1", "true": "perhaps", "count": "x", "time": "soon"}
flags_of = lambda text: re.findall(r"^- `(-[^`]*)` \(([^;)]*)", text, re.M)
keys_of = lambda text: re.findall(r"^### (\S+)\n\n[^\n]*\n\nValues: ([^;\n]*?)[.;]?(?:;|\n)", text, re.M)
MOST = {"train": ["a", "b"], "launch": ["a", "b"], "prepare": ["a", "b"], "tokenize": ["a"], "doctor": ["a"],
        "export": ["a", "b", "c"], "cp": ["a", "b", "c"]}
for part in parts[1:]:
    name = part.split()[0].rstrip(".")
    fails(name, "--no-such-option", want=2)
    fails(name, "--trainer.no_such_key=1", want=2)
    fails(name, "-%", want=2)
    fails(name, *MOST.get(name, ["a", "b"]), want=2)
    for flag, kind in flags_of(part) + flags_of(parts[0]):
        word = kind.split()[0].rstrip(",")
        if word in NONSENSE:
            fails(name, flag + "=" + NONSENSE[word], want=2)
        if kind != "true or false":
            fails(name, flag, want=2)                   # and no value
assert len(keys_of(keys)) == keys.count("\n### ") > 100
for key, kind in keys_of(keys):
    word = kind.split()[0].rstrip(",")
    if word in NONSENSE or kind.startswith("`"):
        fails("train", "--%s=%s" % (key, NONSENSE.get(word, "no-such-choice")), want=2)
fails(want=2)
fails("trian", want=2)

# --- every command, with an input that does not exist, or is of another kind ---
os.mkdir("folder")
open("empty", "w").close()
open("binary", "wb").write(bytes(range(256)))
open("recipe.yaml", "w").write("trainer: {max_steps: [1, 2}\n")
open("text.txt", "w").write("hello there, who goes there\n" * 200)
for thing in "none", "folder", "empty", "binary", "recipe.yaml", "":
    for command in ["evaluate"], ["generate"], ["watch", "--once"], ["export", "out"]:
        fails(command[0], thing, *command[1:])
for thing in "none", "folder", "recipe.yaml", "binary":
    for command in "train", "plan", "bench", "config":
        if command != "config" or thing == "folder": fails(command, thing)
    fails("train", "--data.path=" + thing, "--data.kind=tokens")
    fails("launch", "-n", "1", "--", "train", thing)
    fails("launch", "--slurm", thing)
for args in (["ls", "none"], ["cp", "folder", "there"], ["cp", "", "there"], ["ls", "s3://"], ["ls", "nix://a"], ["cp", "none", "there"],
             ["tokenize"], ["tokenize", "--tokenizer=none"], ["tokenize", "--tokenizer=folder"],
             ["prepare", "none"], ["prepare", "text", "--input=none"], ["prepare"], ["help", "no-such-thing"],
             ["help", "--completion=ksh"], ["launch"], ["launch", "-n", "2"], ["launch", "--", "no-such-command"],
             ["export", "none", "out", "--format=nix"], ["config", "x.yaml", "--ask=never", "--job=nix"],
             ["config", "x.yaml", "--ask=never", "--from-nanogpt=none"], ["train", "--resume", "--overwrite"],
             ["train"], ["evaluate", "none", "--json"], ["train", "none", "--json"]):
    fails(*args)

# --- variables of a launcher that does not exist ---
FAMILIES = (("LEVIN_RANK", "LEVIN_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE"),
            ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"), ("JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"),
            ("FLUX_TASK_RANK", "FLUX_JOB_SIZE"))
for command in ["train", "--data.path=text.txt"], ["bench"], ["evaluate", "none"]:
    for rank, size in FAMILIES:
        for env in ({rank: "5"}, {rank: "1"}, {rank: "x", size: "2"}, {rank: "2", size: "2"}, {rank: "-1", size: "2"}):
            fails(*command, env=env, want=2)
    fails(*command, env={"LEVIN_RANK": "1", "LEVIN_SIZE": "2"})
    fails(*command, env={"LEVIN_RANK": "1", "LEVIN_SIZE": "2", "LEVIN_LOCAL_RANK": "1", "LEVIN_LOCAL_SIZE": "2"})
    fails(*command, "--no-such-option", env={"LEVIN_RANK": "1"}, want=2)
    fails(*command, "--json", env={"LEVIN_RANK": "1"}, want=2)

# --- levin launch over launchers that fail silently in every way ---
def launcher(name, body, version="mpirun (Open MPI) 4.1.4"):
    os.makedirs("bin", exist_ok=True)
    path = "bin/" + name
    with open(path, "w") as f:
        f.write('#!/bin/sh\n[ "$1" != --version ] || { echo "%s"; exit; }\n%s\n' % (version, body))
    os.chmod(path, 0o755)
    return "--launcher=" + os.path.realpath(path)
marked = "printf '[1,1]<stderr>:\\036%d\\n' >&2; exit %d"   # what a rank prints about its end, after the launcher's label
for what in (["train", "--data.path=text.txt"], ["doctor"]):
    for n in 1, 2, 3, 75, 126, 127, 130, 137, 143, 255:
        fails("launch", launcher("exit%d" % n, "exit %d" % n), "-n", "2", "--", *what)
    for n in 1, 2, 75:
        fails("launch", launcher("told%d" % n, marked % (n, n)), "-n", "2", "--", *what)
        fails("launch", launcher("late%d" % n, marked % (n, 0)), "-n", "2", "--", *what)
    for s in 9, 15, 11:
        fails("launch", launcher("signal%d" % s, "kill -%d $$" % s), "-n", "2", "--", *what)
    for version in "HYDRA build details: Version: 4.0.2", "Intel(R) MPI Library for Linux* OS, Version 2021.18.1":
        fails("launch", launcher("other%d" % len(version), "exit 1", version), "-n", "2", "--", *what)
    with open("bin/garbled", "w") as f:
        f.write("no program\n")
    fails("launch", "--launcher=" + os.path.realpath("bin/garbled"), "-n", "2", "--", *what)
# a launcher that disappears after it has printed its version
fails("launch", launcher("brief", "exit 1").replace("brief", "gone"), "-n", "2", "--", "doctor")
with open("bin/gone", "w") as f:
    f.write('#!/bin/sh\nrm "$0"\necho "mpirun (Open MPI) 4.1.4"\n')
os.chmod("bin/gone", 0o755)
fails("launch", "-n", "1", "--", "evaluate", "none")
fails("launch", "-n", "1", "--", "doctor", "--no-such-option", want=2)

with ThreadPoolExecutor(16) as pool:
    list(pool.map(lambda j: run(j[0], **j[1]), jobs))
assert tried == len(jobs) > 300, tried
print("%d ways to fail" % tried)
assert not wrong, "\n".join(wrong)
P

# --- signals ---
soon_started() { soon pgrep -P $pid -x levin; }
make_text
"$LEVIN" launch -n 1 -- bench --steps=1000000 "${tiny[@]:0:4}" >out 2>err &
pid=$!
soon_started
kill -INT $pid
ended
check [ "$got" = 130 ]
says "terminated immediately by SIGINT" err
for how in alone launched; do
    arguments endless-$how --trainer.max_steps=1000000000 --checkpoint.every_n_steps=1000000 --trainer.val_check_interval=0
    [ $how = alone ] || all=(launch -n 1 -- "${all[@]}")
    "$LEVIN" "${all[@]}" >out 2>err &
    pid=$!
    wait_rows endless-$how 1
    kill -INT $pid
    kill -INT $pid 2>/dev/null || true # it may arrive after everything is saved
    ended
    case $got in
    75) says "stopped on request" err ;;
    130) says "terminated immediately by SIGINT" err ;;
    *) cat err && fail "$how: exit $got" ;;
    esac
done

# --- a stack that is too small ---
(ulimit -s 64 && code 1 "$LEVIN" plan)
says "error: the stack limit is 64 KiB (ulimit -s), but levin needs at least 1024 KiB; raise it" err
