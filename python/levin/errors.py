"""The exceptions for failed calls of the library, with its messages."""
from __future__ import annotations


class Error(Exception):
    """A failure, in one sentence: where, what was found, what was expected, what to do.

    `trace` has the lines "while ...", which say what levin was doing, and sometimes hints. Tracebacks show it, too.
    """

    def __init__(self, text: str, trace: str = "") -> None:
        notes = "; ".join(trace.split("\n")).strip("; ")
        has_notes = hasattr(self, "add_note")  # Python 3.11: a traceback shows them below the sentence
        super().__init__(f"{text} ({notes})" if notes and not has_notes else text)
        self.trace = trace
        if notes and has_notes:
            self.add_note(trace.rstrip("\n"))


class InputError(Error, ValueError):
    """A wrong argument, key, value or array (exit code 2 of the command line)."""


class FaultError(Error, RuntimeError):
    """A failure other than a wrong input: a file that cannot be read, too little memory, a non-finite number, a lost rank (exit
    codes 1 and 76). `levin launch` calls only 76 a fault."""


class StoppedError(Error):
    """The run was stopped on request, and saved: Ctrl-C, SIGTERM (exit code 75)."""
