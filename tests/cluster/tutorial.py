"""tutorial.py PAGE OUT LOGIN LAPTOP - runs the commands of a page and compares what they print with what the page shows.

tests/cluster/tutorial.sh calls it. LOGIN and LAPTOP are programs that start a shell there: on the login node, where lines of
the page begin with `$ `, and on the student's own machine (`laptop$ `). Below a command the page shows its output; lines may be
left out, and what differs from run to run is compared by its kind: numbers, times, sizes, the user. OUT receives the page
with the output of this run. `<!-- until COMMAND -->` in the page waits until COMMAND succeeds on the login node; a reader
does not see it.
"""
import os
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

USER, STUDENT = os.environ.get("USER", ""), "student"
LIMIT = 900  # seconds for one command
MARK = "--- the command has ended with "


class Shell:
    """One shell for all commands, because some of them (salloc, export) act on the next ones. It reads a pipe."""

    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        text=True, bufsize=1)

    def run(self, command):
        """(exit code, lines)"""
        shell = re.match(r"salloc|exit$", command)  # they read what follows; other commands must not
        quoted = "'" + command.replace("'", "'\\''") + "'"
        lines, timer = [], threading.Timer(LIMIT, self.process.kill)
        timer.start()
        self.process.stdin.write((command if shell else f"eval {quoted} </dev/null 2>&1") + f"\necho \"{MARK}$?\"\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith(MARK):
                timer.cancel()
                return int(line[len(MARK):]), lines
            lines.append(line.rstrip("\n"))
        sys.exit("\n".join([f"the shell is gone, or this took {LIMIT} s: {command}", *lines]))


def kind(line):
    """the line with every value that differs from run to run replaced by its kind"""
    line = re.sub(rf"\b{re.escape(USER)}\b", STUDENT, line) if USER else line
    line = re.sub(r"\((amx|avx\w*|neon|plain)\)", "(instructions)", line)
    line = re.sub(r"\s+\d+% of peak", "", line)
    line = re.sub(r"\d+:\d\d(:\d\d)?|(\d[\d.,]* (h|min) )?\d[\d.,]* (min|ms|s)\b", "TIME", line)
    line = re.sub(r"\d[\d.,]* ([KMGT]iB|bytes)\b", "SIZE", line)
    line = re.sub(r"\d+(,\d{3})*(\.\d+)?(e[-+]\d+)?", "N", line)
    line = re.sub(r"\bthreads\b", "thread", line)
    line = re.sub(r"-( +SIZE +TIME ago)", r"TIME\1", line)  # levin watch: a rank that has not finished a step yet
    line = re.sub(r"(TIME ago) .*", r"\1", line)  # and what it does just now
    return " ".join(line.split())


def parts(page):
    """the page as (command or None, its lines, (place, text)); `until` is a command as well"""
    found, lines, at = [], page.split("\n"), 0
    while at < len(lines):
        line = lines[at]
        match = re.match(r"    (laptop)?\$ (.*)$", line)
        until = re.match(r"<!-- until (.*) -->$", line)
        begin = at
        at += 1
        if match:
            text = match.group(2)
            while text.endswith("\\"):
                text = text[:-1] + lines[at].strip()
                at += 1
            shown = at
            while at < len(lines) and lines[at].startswith("    ") and not re.match(r"    (laptop)?\$ ", lines[at]):
                at += 1
            found.append((match.group(1) or "login", text, lines[begin:shown], lines[shown:at]))
        elif until:
            found.append(("until", until.group(1), [line], []))
        else:
            found.append((None, None, [line], []))
    return found


def compare(command, shown, printed):
    """the shown lines as they were printed this time; the end of the test if one of them was not"""
    result, at = [], 0
    for line in shown:
        if line.strip() == "...":
            result.append(line)
            continue
        wanted = kind(line)
        while at < len(printed) and kind(printed[at]) != wanted:
            at += 1
        if at == len(printed):
            sys.exit("\n".join([f"the page shows, below `{command}`:", line, "that is, by kind:", wanted, "printed was:",
                                *printed, "by kind:", *map(kind, printed)]))
        real = re.sub(rf"\b{re.escape(USER)}\b", STUDENT, printed[at]) if USER else printed[at]
        result.append("    " + real.rstrip())
        at += 1
    return result


def answer(address, token=None):
    """the HTTP status of Jupyter's interface for programs"""
    request = urllib.request.Request(address + "/api/status", headers={"Authorization": "token " + token} if token else {})
    try:
        return urllib.request.urlopen(request, timeout=20).status
    except urllib.error.HTTPError as error:
        return error.code


def tunnel(shown, login):
    """opens the tunnel as the job's file says, which must be what the page shows; only the token opens Jupyter, and only its
    owner can read it: in files, and among the processes of the worker node"""
    said = next(line for line in login.run("cat jupyter-*.tunnel")[1] if line.startswith("ssh "))
    if kind(said) != kind(shown):
        sys.exit(f"the page shows: {shown}\nthe job says:   {said}")
    port, node = re.match(r"ssh -N -L (\d+):(\w+):", said).groups()
    open_tunnel = subprocess.Popen(said.split(), stdin=subprocess.DEVNULL)
    token = login.run("cat jupyter-*.token")[1][0]
    if not re.fullmatch(r"[0-9a-f]{48}", token):
        sys.exit(f"this is no random token: {token}")
    address, end = f"http://127.0.0.1:{port}", time.time() + LIMIT
    while True:
        try:
            states = answer(address), answer(address, "student"), answer(address, token)
            break
        except OSError:
            if time.time() > end:
                sys.exit("Jupyter does not answer through the tunnel")
            time.sleep(0.1)
    if states != (403, 403, 200):
        sys.exit(f"without a token, with a wrong one, with the right one: {states}")
    for line in login.run(f"grep -rlF {token} ~ | xargs stat -c '%a %n'")[1]:
        if not line.startswith("600 "):
            sys.exit(f"others can read the token: {line}")
    processes = subprocess.run(["ssh", node, "ps -ef"], capture_output=True, text=True, check=True).stdout
    if "jupyter" not in processes or token in processes:
        sys.exit(f"the token is on a command line, or Jupyter does not run there:\n{processes}")
    return open_tunnel


def main():
    page, out = sys.argv[1:3]
    shells = {"login": Shell(sys.argv[3]), "laptop": Shell(sys.argv[4])}
    written, count, begun, tunnels = [], 0, time.time(), []
    for place, command, typed, shown in parts(open(page, encoding="utf-8").read()):
        written += typed
        if place == "until":
            end = time.time() + LIMIT
            while shells["login"].run(command)[0] != 0:
                if time.time() > end:
                    sys.exit(f"not so after {LIMIT} s: {command}")
                time.sleep(0.1)
        elif place == "laptop" and command.startswith("ssh -N "):
            tunnels.append(tunnel(command, shells["login"]))
            written[-1:] = ["    laptop$ " + " ".join(tunnels[-1].args).replace(USER + "@", STUDENT + "@")]
        elif place:
            if place == "laptop":
                command = command.replace(STUDENT + "@", USER + "@")
            status, printed = shells[place].run(command)
            count += 1
            print(f"--- {time.time() - begun:.1f} s: {command}", *printed, sep="\n", flush=True)
            if status != 0:
                sys.exit(f"{command}: exit code {status}")
            written += compare(command, shown, printed)
    for process in tunnels:
        process.kill()
    if len(tunnels) != 1:
        sys.exit("the page opens no tunnel to Jupyter")
    open(out, "w", encoding="utf-8").write("\n".join(written))
    if count < 25:
        sys.exit(f"only {count} commands in {page}")


main()
