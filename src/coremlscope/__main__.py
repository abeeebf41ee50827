"""The command `coremlscope`, and `python -m coremlscope`."""

from __future__ import annotations

import contextlib
import gc
import signal
import sys
from collections.abc import Iterator
from types import FrameType

_INTERRUPTED, _OF_SIGNALS = 130, 128


def main() -> int:
    """Runs the command line of this process, and ends without a traceback if Ctrl-C interrupts its imports.

    SIGTERM, which `timeout`, containers and CI systems send, and SIGHUP of a terminal that is closed act like
    Ctrl-C: completed measurements are kept, and temporary files are removed. Further ones have no effect.

    Returns:
        The exit code; 143 after SIGTERM, 129 after SIGHUP.
    """
    gc.disable()  # until the verb is known: modules live until the end.
    from coremlscope.base.writing import open_standard_streams

    open_standard_streams()
    with _terminations() as received:
        try:
            from coremlscope.cli import main as run

            code = run()
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            code = _INTERRUPTED
        gc.freeze()  # The end of the process frees everything: a search for circles before takes 40 ms.
        return _OF_SIGNALS + received[0] if received else code


@contextlib.contextmanager
def _terminations() -> Iterator[list[int]]:
    """Turns signals into KeyboardInterrupt, unless the process was started with another reaction to them.

    Yields:
        The signals that were received.
    """
    received: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        received.append(number)
        # `timeout` sends it twice: to the process, and to its group.
        if len(received) == 1:
            raise KeyboardInterrupt

    ending = (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM))
    turned = {number for number in ending if signal.getsignal(number) is signal.SIG_DFL}
    for number in turned:
        signal.signal(number, interrupt)
    try:
        yield received
    finally:
        for number in turned:
            signal.signal(number, signal.SIG_DFL)


if __name__ == "__main__":
    sys.exit(main())
