"""`coremlscope completion`: a script with which a shell completes verbs, options and their values."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from coremlscope.cli.command import EVERY, Command, OneOf, add_output, one_of, write_output
from coremlscope.devices.unit import SETTINGS

_SHELLS = ("bash", "zsh", "fish", "tcsh", "powershell")
#: Beginnings of the metavars of arguments that are paths.
_PATHS = ("MODEL", "FILE", "SOURCE", "PROGRAM", "SCRIPT", "OUT", "REFERENCE", "PROFILE")

_EPILOG = """\
The script completes verbs, options, compute units, chips and other fixed values, and paths. It does not
start Python. Write it again after an update of coremlscope. For zsh, .zshrc needs `fpath+=~/.zfunc`
before `compinit`.

examples:
  coremlscope completion bash -o ~/.local/share/bash-completion/completions/coremlscope
  coremlscope completion zsh -o ~/.zfunc/_coremlscope
  coremlscope completion fish -o ~/.config/fish/completions/coremlscope.fish
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "shell", metavar="SHELL", type=one_of("shell", *_SHELLS), help=f"the shell: {', '.join(_SHELLS)}"
    )
    add_output(parser, "script")


def _run(arguments: argparse.Namespace) -> int:
    import shtab

    parser: argparse.ArgumentParser = arguments.parser
    for action in _actions(parser):
        values = _values(action)
        if values:
            action.choices = values
        elif str(action.metavar).startswith(_PATHS):
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif action.metavar == "DIR":
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
    write_output(arguments, shtab.complete(parser, arguments.shell).rstrip("\n") + "\n")
    return 0


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yields the arguments of a parser and of its verbs."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for verb in action.choices.values():
                yield from _actions(verb)
        else:
            yield action


def _values(action: argparse.Action) -> tuple[str, ...]:
    """Returns the fixed values of an argument; none if it takes others."""
    from coremlscope.devices import all_chips

    if action.dest == "compute_units":
        return (*SETTINGS, EVERY)
    if action.dest == "device" and action.metavar in ("NAME", "NAME,…"):
        return tuple(all_chips())
    return action.type.values if isinstance(action.type, OneOf) else ()


COMMAND = Command(
    name="completion",
    doc="Print a script that completes commands in a shell.",
    epilog=_EPILOG,
    configure=_configure,
    run=_run,
)
