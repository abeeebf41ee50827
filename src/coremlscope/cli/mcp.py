"""`coremlscope mcp`: the verbs as tools for agents and editors, over the Model Context Protocol."""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from coremlscope.base.scratch import scratch_folder
from coremlscope.cli.command import Command, Parser
from coremlscope.cli.repetitions import add_limits

_EPILOG = """\
An agent or an editor starts this command and talks to it over standard input and output. Its tools are
verbs: answer, inspect, plan, explain, estimate, compare, check, verify, doctor and rules. Answers are
short; what they leave out has an id, which the tool `more` takes. Each call runs in a process of its own
with limits, and ends when it is cancelled. Only files in the folders of --root are opened, and no pipes
or devices.
It needs the extra `mcp`.

examples:
  coremlscope mcp
  coremlscope mcp --root ~/models
  coremlscope mcp --timeout 60 --memory 4GB
  claude mcp add coremlscope -- coremlscope mcp
"""
#: Seconds of an answer: the model may be a stranger's, and an agent waits for it.
_ANSWER_S = 300
#: Verbs whose short form lacks the findings, which the profile has.
_WITH_FINDINGS = ("plan", "estimate")


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--allow-write", action="store_true", help="also offer tools that write reports and changed models"
    )
    parser.add_argument(
        "--root",
        metavar="FOLDER",
        type=Path,
        action="append",
        default=[],
        help="a folder whose files may be named (repeatable; default: those of the client, else this folder)",
    )
    add_limits(parser, "an answer", default_s=_ANSWER_S)


def _run(arguments: argparse.Namespace) -> int:
    from coremlscope import __version__
    from coremlscope.cli.limited import limits_of
    from coremlscope.measure.embedded.process import call_isolated
    from coremlscope.server.agents.service import make_service

    limits = limits_of(arguments)

    def run(verb: str, given: Sequence[str], started: Callable[[Any], None]) -> Any:
        work = {"verb": verb, "arguments": list(given)}
        return call_isolated(run_verb, work, limits=limits, started=started)

    service = make_service(run, __version__, roots=arguments.root, allow_write=arguments.allow_write)
    with _input_that_ends():
        try:
            service.run("stdio")
        except* BrokenPipeError:  # The client is gone.
            pass
    return 0


@contextlib.contextmanager
def _input_that_ends() -> Iterator[None]:
    """Puts a pipe in the place of standard input, which ends with the block.

    A thread of the SDK reads standard input, and everything waits for it: after a signal, until the client
    closes it. For the same reason Ctrl-C interrupts at once, and does not cancel tasks one by one. It also
    ends where nobody reads standard output.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)
    given, said = os.dup(0), os.dup(1)
    reader, writing = os.pipe()
    os.dup2(reader, 0)
    os.close(reader)
    with os.fdopen(writing, "wb", buffering=0) as writer:

        def pass_on() -> None:
            with contextlib.suppress(OSError, ValueError), writer:
                while _is_read(given, said) and (data := os.read(given, 1 << 16)):
                    writer.write(data)

        threading.Thread(target=pass_on, daemon=True).start()
        yield


def _is_read(given: int, said: int) -> bool:
    """Waits for input; returns False if the reader of the output closed it before."""
    if not hasattr(select, "poll"):  # on Windows
        return True
    waiting = select.poll()
    waiting.register(given, select.POLLIN)
    waiting.register(said, 0)
    return all(descriptor == given for descriptor, _ in waiting.poll())


def run_verb(verb: str, arguments: Sequence[str]) -> Any:
    """Runs a verb in this process, and returns its JSON with the exit code and the findings.

    Args:
        verb: The name of the verb.
        arguments: Its arguments, without those for its output.

    Raises:
        CoremlscopeError: The verb raised it.
    """
    import json

    from coremlscope.cli.main import find_command

    command = find_command(verb)
    parser = Parser(prog=f"coremlscope {verb}")
    command.configure(parser)
    with scratch_folder() as folder:
        result, profile = Path(folder) / "result.json", Path(folder) / "profile.json"
        outputs = [f"--json={result}"]
        has_profile = verb in _WITH_FINDINGS and not any(one.startswith("--explain") for one in arguments)
        if has_profile:
            outputs.append(f"--output={profile}")
        if any("--quiet" in action.option_strings for action in parser._actions):
            outputs.append("--quiet")
        code = command.run(parser.parse_args([*outputs, *arguments]))
        answer = {"exit_code": code, verb: json.loads(result.read_bytes()) if result.is_file() else None}
        if has_profile:
            saved = json.loads(profile.read_bytes())
            answer["findings"] = [one for part in saved.get("profiles", [saved]) for one in part["findings"]]
    return answer


COMMAND = Command(
    name="mcp",
    doc="Offer the verbs to agents and editors (Model Context Protocol).",
    epilog=_EPILOG,
    configure=_configure,
    run=_run,
)
