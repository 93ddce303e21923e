"""Runs in other processes: their metrics as arrays, following a run, starting a job."""
from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from . import _library
from .errors import FaultError, InputError
from .settings import Settings, find_run, flatten

_ENDED = ("done", "stopped", "failed")
_SILENT = 60  # seconds without a new status.json
_LEFT_SLURM = ("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "DEADLINE", "OUT_OF_MEMORY")  # squeue may list them a while


def _outcome(code: int) -> str:
    """The state of a run by the exit code of its launcher."""
    return {0: "done", 75: "stopped"}.get(code, "failed")


def _status(path: Path) -> dict[str, Any]:
    try:
        status = json.loads((path / "status.json").read_text())
    except (OSError, ValueError):
        return {}
    return status if isinstance(status, dict) and isinstance(status.get("time", 0), (int, float)) else {}


def _slurm_state(number: str) -> str | None:
    """PENDING, RUNNING, ...; "": the job has left Slurm; None: squeue does not answer."""
    try:
        found = subprocess.run(["squeue", "-h", "-j", number, "-o", "%T"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if found.returncode:
        return "" if "Invalid job id" in found.stderr else None
    state = found.stdout.strip()
    return "" if state in _LEFT_SLURM else state


def _was_killed(status: Mapping[str, Any]) -> bool:
    """Was the process of rank 0 on this host, and has it ended?"""
    first = (status.get("ranks") or [{}])[0]
    if first.get("host") != socket.gethostname() or not first.get("pid"):
        return False
    try:
        os.kill(first["pid"], 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False


def _folder(run: str | os.PathLike[str]) -> Path:
    """The folder of a run by its path or its name; it may not exist before the run starts."""
    if "://" in os.fspath(run):
        raise InputError(f"the run '{os.fspath(run)}' is in a store, but this function needs a folder: `levin watch` follows it")
    path = Path(run)
    return find_run(run) or (path if path.is_dir() or len(path.parts) > 1 else Path("runs") / path)


def read_metrics(run: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """metrics.csv of a run (a folder, or a name below runs/) as columns: "step" int64, all others float64.

    There is a row for each step; step 0 is the validation before the first one. Values missing at a step
    (val_loss between two validations) are NaN. An incomplete last row is skipped.
    """
    path = _folder(run) / "metrics.csv"
    try:
        text = path.read_text(errors="replace")
    except (FileNotFoundError, NotADirectoryError):
        raise FaultError(f"'{path}' does not exist: give a run's folder, or its name below runs/") from None
    except OSError as e:
        raise FaultError(f"'{path}' cannot be read: {e.strerror}") from None
    lines = text[:text.rfind("\n") + 1].splitlines()
    if not lines or not lines[0].startswith("step"):
        raise FaultError(f"'{path}' does not begin with a row of names (step,loss,...): it is not a file of levin")
    names = lines[0].split(",")
    table = np.full((len(lines) - 1, len(names)), np.nan)
    for i, line in enumerate(lines[1:]):
        for k, cell in enumerate(line.split(",")[:len(names)]):
            if cell:
                try:
                    table[i, k] = float(cell)
                except ValueError:
                    raise FaultError(f"'{path}', line {i + 2}: '{cell[:40]}' is not a number ({names[k]})") from None
    steps = table[:, 0].astype(np.int64)  # a validation or run.log() adds a line after that of its step
    first = np.flatnonzero(np.diff(steps, prepend=-1))
    for i in np.flatnonzero(~np.isin(np.arange(len(steps)), first)):
        to = first[np.searchsorted(first, i) - 1]
        table[to] = np.where(np.isnan(table[i]), table[to], table[i])
    return {n: steps[first] if n == "step" else table[first, k] for k, n in enumerate(names)}


class _Rows:
    """The rows of a file metrics.jsonl that grows. A run that continues from a checkpoint removes the rows after its step
    and computes them again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position, self._first, self._last = 0, b"", b""  # bytes read, and the first and the last of their lines
        self._step, self._names = -1, set()  # the last step read, and the scalars of each of its rows
        self._repeats = False  # rows up to this step may come again

    def _lines(self) -> list[bytes]:
        """The whole lines that were added since the last call, or all if another file has replaced this one."""
        try:
            with open(self._path, "rb") as f:
                f.seek(self._position - len(self._last))
                new = f.read()
                if new.startswith(self._last):
                    new = new[len(self._last):]
                else:
                    f.seek(0)
                    new = f.read()
                    self._position, self._last = 0, b""
                    self._repeats = new.startswith(self._first)
                    if not self._repeats:  # this is another run
                        self._step, self._names = -1, set()
        except FileNotFoundError:
            return []
        except OSError as e:
            raise FaultError(f"'{self._path}' cannot be read: {e.strerror}") from None
        lines = new[:new.rfind(b"\n") + 1].splitlines(keepends=True)
        if lines:
            self._first = self._first if self._position else lines[0]
            self._position, self._last = self._position + sum(map(len, lines)), lines[-1]
        return lines

    def read(self) -> list[dict[str, float]]:
        out = []
        for line in self._lines():
            try:
                row = json.loads(line)
                step, names = row["step"], tuple(row)
            except (ValueError, KeyError, TypeError):
                raise FaultError(f"'{self._path}' is damaged: it has the line {line[:60]!r}") from None
            if self._repeats and (step < self._step or step == self._step and names in self._names):
                continue
            if step != self._step:
                self._step, self._names, self._repeats = step, set(), False
            self._names.add(names)
            out.append({k: v for k, v in row.items() if v is not None})
        return out


class Attached:
    """A run in another process: another kernel, a Slurm job, another host with the same folder. It is only read."""

    def __init__(self, run: str | os.PathLike[str], process: subprocess.Popen[bytes] | None = None,
                 number: str | None = None, before: Mapping[str, Any] | None = None, resume: bool = False) -> None:
        self.path = _folder(run)
        self._process = process  # the launcher, if this process started it
        self._number = number  # the Slurm job
        self._before, self._resume = before, resume  # the status of a former run in this folder; it is continued
        self._asked, self._gone_since = -float("inf"), 0.0  # times when Slurm was asked, and no longer listed the job
        self._slurm: str | None = None  # its answer
        self._unanswered_since = 0.0  # the first time without an answer; 0: the last one was answered

    @property
    def status(self) -> dict[str, Any]:
        """status.json, which the run replaces about once a second: step, state, time, ranks; {}: not started."""
        status = _status(self.path)
        return {} if status == self._before and not self._had_no_steps() else status

    def _had_no_steps(self) -> bool:
        """Has the job ended without writing a status, because the run that it resumed was complete?"""
        if self._process:
            return self._process.poll() == 0
        return bool(self._resume and self._before and self._before.get("state") == "done" and self._is_gone())

    @property
    def state(self) -> str:
        """"waiting" (not started, or in Slurm's queue again), "running", "done", "stopped", "failed", "fault" (a rank was lost;
        the launcher may restart the run), or "silent": "running", but nothing was written for a minute.

        Of a run that was attached by its folder nobody knows whether its launcher still runs or Slurm starts it again:
        "stopped" is an end, and after a minute of silence a fault is "failed", as is a run whose process on this host is gone.
        The same is true of a Slurm job if squeue has not answered for a minute.
        """
        if self._process and self._process.poll() is not None:
            return _outcome(self._process.returncode)
        gone = self._is_gone()  # read before the status, which may depend on it
        status = self.status
        state = status.get("state", "waiting")
        is_old = time.time() - status.get("time", 0) > _SILENT
        is_lost = self._unanswered_since > 0 and time.monotonic() - self._unanswered_since > _SILENT
        has_job = bool(self._number) and self._slurm != "" and not (is_lost and is_old)
        if has_job and state != "done" and self._slurm == "PENDING":
            return "waiting"
        if self._process and state == "done" or (self._process or has_job) and state in ("stopped", "failed", "fault"):
            state = "running"  # the launcher has not ended: the run may write its status again
        if state not in _ENDED and gone:
            return "failed"
        if state in ("running", "fault") and is_old:
            known = not self._process and (not self._number or is_lost) and (state == "fault" or _was_killed(status))
            return "failed" if known else "silent"
        return state

    def _is_gone(self) -> bool:
        """Did the Slurm job end a minute ago? Its last status may come late through a network file system."""
        if self._number and time.monotonic() - self._asked > 10:
            self._slurm = _slurm_state(self._number)
            self._asked = time.monotonic()
            self._unanswered_since = 0.0 if self._slurm is not None else self._unanswered_since or self._asked
            self._gone_since = 0.0 if self._slurm != "" else self._gone_since or self._asked
        return self._gone_since > 0 and time.monotonic() - self._gone_since > _SILENT

    def metrics(self) -> dict[str, np.ndarray]:
        return read_metrics(self.path)

    def rows(self, interval: float = 0.5, timeout: float | None = None) -> Iterator[dict[str, float]]:
        """Follow the run: yields each row of metrics.jsonl, including existing ones, until the run ends, as `state` knows it
        ("silent" is no end). A row has the values of its event: a validation has val_loss but no loss. If the run is restarted
        from a checkpoint, the steps that it computes again are not yielded again.

        interval: seconds between two reads. timeout: seconds without a new row after which TimeoutError is raised.
        """
        rows, last = _Rows(self.path / "metrics.jsonl"), time.monotonic()
        while True:
            ended = self.state in _ENDED  # read before the rows, so that no row is missed
            if not self._before or self.status:  # otherwise the rows are those of the former run
                for row in rows.read():
                    last = time.monotonic()
                    yield row
            if ended:
                return
            if timeout is not None and time.monotonic() - last > timeout:
                raise TimeoutError(f"the run '{self.path}' has written nothing for {timeout} s; its state: {self.state}")
            time.sleep(interval)

    def wait(self, interval: float = 0.5, timeout: float | None = None) -> str:
        """Wait for the run's end; returns its state. timeout: seconds after which TimeoutError is raised."""
        begun = time.monotonic()
        while (state := self.state) not in _ENDED:
            if timeout is not None and time.monotonic() - begun > timeout:
                raise TimeoutError(f"the run '{self.path}' has not ended within {timeout} s; its state: {state}")
            time.sleep(interval)
        return state

    def __repr__(self) -> str:
        return f"<levin.Attached {self.path}, {self.state}, step {self.status.get('step', 0)}>"


def attach(run: str | os.PathLike[str]) -> Attached:
    """Follow a run of another process, by its folder or its name below runs/."""
    return Attached(run)


class Job:
    """A job that `launch()` started. `attach()` follows its run, whose folder (or URL in a store) is `path`.
    The output of the ranks is in the file `log`."""

    def __init__(self, command: list[str], run: str, process: subprocess.Popen[bytes] | None, number: str | None,
                 log: Path, before: Mapping[str, Any] | None = None, resume: bool = False) -> None:
        self.command, self.path, self.process, self.number, self.log = command, run, process, number, log
        self._before, self._resume = before, resume  # the status of a former run in this folder; it is continued

    def attach(self) -> Attached:
        return Attached(self.path, self.process, self.number, self._before, self._resume)

    def stop(self) -> None:
        """Ask the run to finish its step, save and end. A Slurm job that has not started is cancelled."""
        if self.number:  # a signal reaches only a job that runs
            signal = [] if _slurm_state(self.number) == "PENDING" else ["--signal=TERM", "--full"]
            subprocess.run(["scancel", *signal, self.number], check=True)
        elif self.process:
            self.process.terminate()

    def wait(self, timeout: float | None = None) -> str:
        """Wait for the end; returns the run's state, "done", "stopped" or "failed". timeout: seconds after which TimeoutError
        is raised."""
        if not self.process:
            return self.attach().wait(timeout=timeout)
        try:
            return _outcome(self.process.wait(timeout))
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"the run '{self.path}' has not ended within {timeout} s") from None

    def __repr__(self) -> str:
        return f"<levin.Job {self.number or (self.process and self.process.pid)}, run {self.path}, log {self.log}>"


def launch(recipe: str | os.PathLike[str] | Mapping[str, Any], nodes: int = 1, nproc_per_node: int = 1, *,
           slurm: bool = False, sbatch: Mapping[str, Any] | None = None, resume: bool = False, overwrite: bool = False,
           **keys: Any) -> Job:
    """Start a training with several ranks and return immediately: `levin launch` here, or with slurm=True a Slurm job with
    `nodes` nodes (sbatch: further options of `levin launch --slurm`, such as {"time": "02:00:00", "partition": "gpu"}).

    Wrong keys raise InputError before anything is started."""
    nodes, nproc_per_node = _library.integer(nodes, "nodes"), _library.integer(nproc_per_node, "nproc_per_node")
    if nodes < 1 or nproc_per_node < 1:
        raise InputError(f"launch() needs at least 1 node and 1 rank on each, not {nodes} and {nproc_per_node}")
    if nodes > 1 and not slurm:
        raise InputError(f"launch() needs slurm=True for {nodes} nodes: without it all ranks are on this machine")
    if sbatch and not slurm:
        raise InputError("sbatch contains options of a Slurm job: also give slurm=True")
    for name in {"array", "out"} & set(sbatch or ()):
        raise InputError(f"launch() submits one job for one run, so sbatch has no '{name}': use `levin launch --slurm --{name}=...`")
    settings = Settings()
    settings.read(recipe, resume)
    settings.put(keys)
    settings.check()
    given = dict(flatten(keys))
    words = [f"--{k}={v}" for k, v in given.items()]
    if isinstance(recipe, Mapping):
        words = [f"--{k}={v}" for k, v in flatten(recipe) if k not in given] + words
        operand: list[str] = []
    else:
        operand = [os.fspath(recipe)]
    train = ["train", *operand, *(["--resume"] if resume else []), *(["--overwrite"] if overwrite else []), *words]
    run = settings["run_dir"]
    run = run if "://" in run else os.path.abspath(run)
    before = None if "://" in run else _status(Path(run)) or None
    program = str(_library.find_program())
    folder = Path(tempfile.mkdtemp(prefix="levin-launch."))
    if not slurm:
        log = folder / "launch.log"
        command = [program, "launch", "-n", str(nproc_per_node), "--", *train]
        with open(log, "wb") as out:
            process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                       start_new_session=True)  # an interrupted cell does not stop it
        return Job(command, run, process, None, log, before, resume)
    if not shutil.which("sbatch"):
        raise FaultError("sbatch was not found: slurm=True needs a machine that can submit Slurm jobs")
    script = folder / "job.sbatch"
    options = [f"--{k.replace('_', '-')}={v}" for k, v in (sbatch or {}).items() if v is not None]
    written = subprocess.run([program, "launch", "--slurm", f"--nodes={nodes}", f"--nproc-per-node={nproc_per_node}",
                              f"--out={script}", *options, "--", *train], capture_output=True, text=True)
    if written.returncode:
        raise InputError(written.stderr.strip().removeprefix("error: "))
    command = ["sbatch", str(script)]
    submitted = subprocess.run(command, capture_output=True, text=True)
    number = re.search(r"\d+", submitted.stdout)
    if submitted.returncode or not number:
        raise FaultError(f"sbatch refused the job: {submitted.stderr.strip() or submitted.stdout.strip()}")
    given = dict(re.findall(r"^#SBATCH --(job-name|output)=(.*)$", script.read_text(), re.M))
    log = Path(given["output"].replace("%x", given["job-name"]).replace("%j", number.group())).absolute()
    return Job(command, run, None, number.group(), log, before, resume)
