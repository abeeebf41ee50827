"""`coremlscope cache`: the cache of compiled functions."""

from __future__ import annotations

import argparse

import msgspec

from coremlscope.cli.command import Command, add_json, one_of, write_result

_SCHEMA = "coremlscope.cache/1"
_EPILOG = """\
When the drop-in runtime loads a compiled model, it keeps the engine's files for the next time.
An entry belongs to the content of the model, the version of the engine and the processor. When
the cache exceeds its limit, the least recently used entries are removed. COREMLSCOPE_CACHE names
another folder, and COREMLSCOPE_CACHE_LIMIT another limit, such as 500MB.

examples:
  coremlscope cache
  coremlscope cache clear
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action",
        metavar="ACTION",
        nargs="?",
        type=one_of("action", "clear"),
        help="clear: remove all entries (default: list them)",
    )
    add_json(parser)


def _run(arguments: argparse.Namespace) -> int:
    from coremlscope.reports.cache import cache_document
    from coremlscope.reports.json import render_values
    from coremlscope.runtime.execution.cache import default_cache

    cache = default_cache()
    removed = cache.clear() if arguments.action == "clear" else None
    entries = cache.entries()

    def values() -> str:
        return render_values(
            {
                "schema": _SCHEMA,
                "folder": str(cache.root),
                "limit_bytes": cache.limit_bytes,
                "removed": removed or 0,
                "entries": [msgspec.to_builtins(entry) for entry in entries],
            }
        )

    write_result(arguments, values, cache_document(cache.root, cache.limit_bytes, entries, removed))
    return 0


COMMAND = Command(
    name="cache",
    doc="Show or clear the cache of compiled functions.",
    epilog=_EPILOG,
    configure=_configure,
    run=_run,
)
