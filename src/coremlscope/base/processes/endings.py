"""Explains how a child process ended, by its signal and the texts that it left behind."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

import msgspec

_LONGEST = 300
#: Begins the line in which a child says why it ends; libraries may write others after it.
_REASON = "ends because:"


class KnownFailure(msgspec.Struct, frozen=True):
    """A known failure.

    Attributes:
        pattern: A regular expression that the process's messages match.
        text: What happened, as the end of a sentence; empty to cite the matching line.
        hint: What to do.
    """

    pattern: str
    text: str
    hint: str


class Failures(msgspec.Struct, frozen=True):
    """Known failures of a runtime.

    Attributes:
        runtime: Its name, as the subject of a sentence: `Core ML`.
        known: Known failures, more specific ones first.
    """

    runtime: str
    known: tuple[KnownFailure, ...] = ()


def find_failure(failures: Sequence[KnownFailure], lines: Sequence[str]) -> tuple[str, str]:
    """Returns the text and the hint of the first known failure that a line matches; empty texts for none.

    Args:
        failures: Known failures, more specific ones first.
        lines: The output of a process.
    """
    for failure in failures:
        matching = [line for line in lines if re.search(failure.pattern, line)]
        if matching:
            return failure.text or _short(matching[-1]), failure.hint
    return "", ""


def end_with(reason: str) -> NoReturn:
    """Ends this process, a child, with a reason for its parent.

    Args:
        reason: What happened; it may have several lines.
    """
    sys.exit(f"{_REASON} {' '.join(reason.split())}")


def lines_of(said: str) -> list[str]:
    """Returns the lines that say something in the output of a process, but for the reason of its end.

    The line of source that Python prints below a warning says nothing.
    """
    kept, is_cited = [], False
    for whole in said.splitlines():
        line = " ".join(whole.split())
        says = re.search(r"\w", line) and not line.startswith(_REASON)
        if says and not (is_cited and whole.startswith(" ")):
            kept.append(line)
        is_cited = re.search(r":\d+: \w*Warning: ", line) is not None
    return kept


def explain(code: int, said: str, failures: Failures) -> tuple[str, str]:
    """Returns one sentence about the end of a process, and a hint where one is known.

    A process that ended by itself is believed; what was written before it is only added to its reason.

    Args:
        code: The exit status as `subprocess` gives it: negative for a signal.
        said: The end of what the process wrote to its standard error.
        failures: What is known of the runtime that it ran.
    """
    lines = lines_of(said)
    end = _ending(code, failures.runtime)
    reasons = [line.removeprefix(_REASON).strip() for line in said.splitlines() if line.startswith(_REASON)]
    last = (reasons or lines or [""])[-1]
    text, hint = find_failure(failures.known, [last])
    earlier, other_hint = ("", "") if text else find_failure(failures.known, lines)
    if end:
        text = text or earlier
        said_last = f"; its last words: {_short(last)}" if last else ""
        return (f"{end}: {text}" if text else end + said_last), hint or other_hint
    if text or not last:
        return text or f"exit code {code}", hint
    if reasons and earlier:
        return f"{_short(last)} (it had written before: {earlier})", other_hint
    return earlier or _short(last), other_hint


def _ending(code: int, runtime: str) -> str:
    """Returns what a signal means; empty where the process ended by itself."""
    number = -code if code < 0 else code - 128 if code > 128 else 0
    try:
        name = signal.Signals(number).name
    except ValueError:
        return ""
    meaning = {
        "SIGABRT": f"{runtime} aborted the process (SIGABRT)",
        "SIGKILL": "the system killed the process (SIGKILL), as it does when memory runs out",
        "SIGSEGV": f"{runtime} crashed (SIGSEGV)",
        "SIGBUS": f"{runtime} crashed (SIGBUS)",
        # Swift stops at such an instruction on purpose; others meet one that the processor does not have.
        "SIGILL": f"{runtime} stopped at an illegal instruction (SIGILL)",
        "SIGFPE": f"{runtime} crashed (SIGFPE)",
        "SIGXCPU": f"{runtime} used all of the processor time that the time limit allows (SIGXCPU)",
    }
    return meaning.get(name, f"the process was ended by {name}")


def _short(line: str) -> str:
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
