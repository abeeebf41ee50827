"""The command `coremlscope`, and `python -m coremlscope`."""

import sys

__all__ = ["main"]

_INTERRUPTED = 130


def main() -> int:
    """Runs the command line of this process, and ends without a traceback if Ctrl-C interrupts its imports.

    Returns:
        The exit code.
    """
    try:
        from coremlscope.cli import main as run
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return _INTERRUPTED
    return run()


if __name__ == "__main__":
    sys.exit(main())
