"""`coremlscope serve`: a local web page that opens models."""

from __future__ import annotations

import argparse
import contextlib
import webbrowser

from coremlscope.cli.command import Command, at_least
from coremlscope.cli.repetitions import add_limits
from coremlscope.cli.terminal import print_note, print_result

_EPILOG = """\
A page in the browser opens a model that is dropped on it: where it runs, why, and how long a
prediction takes, on the same six devices as `coremlscope MODEL`. It can then be run on this
machine, with the time of each operation, and be given photos, sounds, numbers or texts. Two models
that are dropped together are compared. One model is worked on at a time, in a process that the
page can stop. Models stay on this machine, and are removed when the server stops.

The address contains a random token; requests without it are rejected. Ctrl-C stops the server.

examples:
  coremlscope serve
  coremlscope serve --open
  coremlscope serve --port 8642 --max-upload 4000
"""
_MEGABYTE = 1 << 20
#: Seconds of work: its model may be a stranger's, and others wait for it.
_WORK_S = 3600


def _configure(parser: argparse.ArgumentParser) -> None:
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
        help="the largest model that can be opened (default: 1024)",
    )
    add_limits(parser, "work on a model", default_s=_WORK_S)
    parser.add_argument("--open", action="store_true", help="open the page in a browser")


def _run(arguments: argparse.Namespace) -> int:
    from coremlscope.base.processes.child import ChildLimits
    from coremlscope.server.limits import ServerLimits
    from coremlscope.server.server import Address, serve

    address = Address(host=arguments.host, port=arguments.port, is_remote_allowed=arguments.allow_remote)
    limits = ServerLimits(upload_bytes=arguments.max_upload * _MEGABYTE)
    work_limits = ChildLimits(
        silence_s=arguments.timeout, time_s=arguments.timeout, memory_bytes=arguments.memory
    )
    with serve(address, limits, work_limits) as (url, answer):
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
    doc="Open models in a local web page, run them there, and give them inputs.",
    epilog=_EPILOG,
    configure=_configure,
    run=_run,
)
