"""The server of the Model Context Protocol that offers the tools."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any

from coremlscope.base.errors import MissingDependencyError, how_to_install, known_error
from coremlscope.server.agents.tools import Run, Tools

_INSTRUCTIONS = """\
Opens Core ML models (.mlpackage, .mlmodelc, .mlmodel, .aimodel) on any machine. Start with `inspect` or
`estimate`; `plan` says which compute unit would run each operation, `explain` why. Every figure has an
origin: `measured`, `planned` (Core ML's cost model, which only ranks units), `estimated` (with an 80 %
interval) or `declared`; never call an estimate a measurement. Long arrays are cut to `{count, first, id}`:
pass the id to `more`, with `find` to search in it. Findings say what a model does at a cost, and what to do.
"""


def make_service(run: Run, version: str, *, allow_write: bool) -> Any:
    """Returns the server, an `mcp.server.MCPServer`.

    Args:
        run: Runs a verb.
        version: The version of coremlscope.
        allow_write: Whether to offer tools that write files.

    Raises:
        MissingDependencyError: The SDK is not installed.
    """
    try:
        from mcp.server import MCPServer
        from mcp.types import ToolAnnotations
    except ImportError as error:
        raise MissingDependencyError("the package `mcp` is not installed", how_to_install("mcp")) from error

    service = MCPServer("coremlscope", version=version, instructions=_INSTRUCTIONS, log_level="WARNING")
    tools = Tools(run)
    for tool in tools.reading():
        service.add_tool(_answering(tool), annotations=ToolAnnotations(read_only_hint=True))
    for tool in tools.writing() if allow_write else ():
        service.add_tool(_answering(tool), annotations=ToolAnnotations(read_only_hint=False))
    return service


def _answering(tool: Callable[..., dict[str, Any]]) -> Callable[..., Any]:
    """Returns a tool whose errors are answers with a message, a hint and the exit code of the verb."""
    from mcp.types import CallToolResult, TextContent

    @functools.wraps(tool)
    def answer(**arguments: Any) -> Any:
        failed = False
        try:
            found = tool(**arguments)
        except Exception as error:
            known, failed = known_error(error), True
            found = {"error": type(known).__name__, "message": known.message, "hint": known.hint}
            found["exit_code"] = known.exit_code
        # The SDK's own text is indented, and a third longer.
        text = TextContent(type="text", text=json.dumps(found, ensure_ascii=False))
        return CallToolResult(content=[text], structured_content=found, is_error=failed)

    return answer
