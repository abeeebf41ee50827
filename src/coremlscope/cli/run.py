"""`coremlscope run`: runs a Python script that uses coremltools, as on a Mac."""

from __future__ import annotations

import argparse
import runpy
import sys
import traceback
from pathlib import Path

from coremlscope.base.errors import UsageError
from coremlscope.cli.command import Command

_EPILOG = """\
The script needs no change: models that it loads with coremltools' MLModel are run by coremlscope.
Everything after the script's name is passed to it.

examples:
  coremlscope run predict.py --model model.mlpackage
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("script", metavar="SCRIPT.py", type=Path, help="the script")
    rest = parser.add_argument("arguments", metavar="ARG", nargs=argparse.REMAINDER, help="its arguments")
    rest.required = False  # otherwise argparse reports it as missing together with the script


def _run(arguments: argparse.Namespace) -> int:
    from coremlscope.dropin import install

    script: Path = arguments.script
    if not script.is_file():
        raise UsageError(f"the script {script} does not exist", "check the path")
    install()
    before = sys.argv, sys.path[0]
    sys.argv = [str(script), *arguments.arguments]
    sys.path[0] = str(script.resolve().parent)
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as leaving:
        return _exit_code(leaving)
    except (KeyboardInterrupt, BrokenPipeError):
        raise
    except BaseException as error:
        _print_traceback(error, str(script))
        return 1
    finally:
        sys.argv, sys.path[0] = before
    return 0


def _exit_code(leaving: SystemExit) -> int:
    """Returns the exit code that Python itself would return."""
    if leaving.code is None:
        return 0
    if isinstance(leaving.code, int):
        return leaving.code
    sys.stderr.write(f"{leaving.code}\n")
    return 1


def _print_traceback(error: BaseException, script: str) -> None:
    """The traceback as Python shows it, without the frames of this program."""
    frame = error.__traceback__
    while frame is not None and frame.tb_frame.f_code.co_filename != script:
        frame = frame.tb_next
    # Without such a frame the script was not started because of a syntax error.
    traceback.print_exception(type(error), error, frame)


COMMAND = Command(
    name="run",
    doc="Run a script that uses coremltools, even off a Mac.",
    epilog=_EPILOG,
    configure=_configure,
    run=_run,
)
