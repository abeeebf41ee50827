"""`coremlscope serve`: a local web page over saved profiles."""

from __future__ import annotations

import argparse
import contextlib
import webbrowser
from pathlib import Path

from coremlscope.cli.command import Command, at_least
from coremlscope.cli.repetitions import add_limits
from coremlscope.cli.terminal import print_note, print_result

_EPILOG = """\
The page lists the profiles of a folder (*.json files written by `profile`, `plan`, `estimate`
and `compare`) with the history of each model, and opens each profile as a report. Uploaded
models are profiled one at a time, each in a process that can be cancelled; the profile is saved
in the folder. While the server runs, plans and estimates for other devices can be added to it, and
photos, sounds, numbers or texts can be given to the model.
Profiles can be searched, tagged, renamed, deleted and compared. The address contains a random
token; requests without it are rejected. Ctrl-C stops the server.

Results of sweeps are listed, too, and open as a page, which changes while a sweep runs: those in
sweep-results, in FOLDER, in its folders and in those of --sweep.

examples:
  coremlscope serve
  coremlscope serve profiles/ --open
  coremlscope serve profiles/ --port 8642 --max-upload 4000
  coremlscope serve --sweep nightly/results
"""
_MEGABYTE = 1 << 20
#: Seconds of a job: its model may be a stranger's, and others wait for it.
_JOB_S = 3600


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "folder",
        metavar="FOLDER",
        nargs="?",
        type=Path,
        default=Path("profiles"),
        help="the folder of the profiles; it is created if it does not exist (default: profiles)",
    )
    parser.add_argument(
        "--port",
        metavar="N",
        type=at_least(0),
        default=8642,
        help="the port; 0 for any free port (default: 8642)",
    )
    parser.add_argument(
        "--host", metavar="NAME", default="127.0.0.1", help="the address to listen on (default: 127.0.0.1)"
    )
    parser.add_argument(
        "--allow-remote", action="store_true", help="allow other machines to connect; they need the token"
    )
    parser.add_argument(
        "--max-upload",
        metavar="MB",
        type=at_least(1),
        default=1024,
        help="the largest model that can be uploaded (default: 1024)",
    )
    parser.add_argument(
        "--sweep",
        metavar="FOLDER",
        type=Path,
        action="append",
        default=[],
        help="show the results of sweeps in this folder, too (repeatable; sweep-results is always shown)",
    )
    add_limits(parser, "a job", default_s=_JOB_S)
    parser.add_argument("--open", action="store_true", help="open the page in a browser")


def _run(arguments: argparse.Namespace) -> int:
    from coremlscope.base.processes.child import ChildLimits as JobLimits
    from coremlscope.server.limits import ServerLimits
    from coremlscope.server.server import Address, serve
    from coremlscope.studies.sweep.store import RESULTS

    address = Address(host=arguments.host, port=arguments.port, is_remote_allowed=arguments.allow_remote)
    limits = ServerLimits(upload_bytes=arguments.max_upload * _MEGABYTE)
    job_limits = JobLimits(
        silence_s=arguments.timeout, time_s=arguments.timeout, memory_bytes=arguments.memory
    )
    sweeps = [*arguments.sweep, Path(RESULTS)]
    is_new = not arguments.folder.exists()
    with serve(arguments.folder, address, limits, job_limits, sweeps) as (url, answer):
        if is_new:
            print_note(f"created the folder {arguments.folder}, which did not exist")
        print_result(f"{url}\n")
        print_note("press Ctrl-C to stop the server")
        if arguments.open:
            webbrowser.open(url)
        with contextlib.suppress(KeyboardInterrupt):
            answer()
        print_note("ended")
    return 0


COMMAND = Command(
    name="serve",
    doc="Show saved profiles in a local web page, and profile models there.",
    epilog=_EPILOG,
    configure=_configure,
    run=_run,
)
