"""Exceptions: what a failed call of the library means, with the library's own sentence."""
from __future__ import annotations


class Error(Exception):
    """A failure, in one sentence: which thing, what was found, what was wanted, what to do.

    `trace` holds the lines "while ..." that say what levin was doing.
    """

    def __init__(self, text: str, trace: str = "") -> None:
        super().__init__(text)
        self.trace = trace


class InputError(Error, ValueError):
    """A wrong argument, key, value or array (exit code 2 of the command line)."""


class FaultError(Error, RuntimeError):
    """Something failed: a file, memory, a number that is not finite, a lost rank (exit codes 1 and 76)."""


class StoppedError(Error):
    """The run was stopped on request, and saved: Ctrl-C, SIGTERM (exit code 75)."""
