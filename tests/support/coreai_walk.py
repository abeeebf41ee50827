"""Prints what coreai-core reads in a bundle, as JSON. It runs in a process of its own: damaged files end it.

python -m tests.support.coreai_walk net.aimodel
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

__all__ = ["walk"]

_RESOURCE = re.compile(r'^\s+(resource_\d+): "0x([0-9A-F]*)"', re.MULTILINE)
#: The bytes before the content of a resource in text: its alignment.
_HEAD_DIGITS = 8


def walk(bundle: Path) -> dict[str, Any]:
    """Returns the graphs of a bundle: the operations of each with their results' types and constants."""
    command = [sys.executable, "-m", "tests.support.coreai_walk", str(bundle)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _describe(bundle: str) -> dict[str, Any]:
    from coreai.authoring import AIModelAsset  # type: ignore[import-not-found,unused-ignore]

    program = AIModelAsset.load(bundle).program
    module = program._module._mlir_module
    text = module.operation.get_asm(large_elements_limit=None)
    resources = {name: bytes.fromhex(digits[_HEAD_DIGITS:]) for name, digits in _RESOURCE.findall(text)}
    graphs = {}
    for graph in module.operation.regions[0].blocks[0].operations:
        name = str(graph.attributes["sym_name"]).strip('"')
        block = graph.regions[0].blocks[0]
        graphs[name] = {
            "inputs": [str(value.type) for value in block.arguments],
            "attributes": _attributes(graph),
            "ops": [_operation(op, resources) for op in block.operations],
        }
    return graphs


def _attributes(op: Any) -> dict[str, str]:
    names = [getattr(one, "name", one) for one in op.attributes]
    return {name: str(op.attributes[name]) for name in names}


def _operation(op: Any, resources: dict[str, bytes]) -> dict[str, Any]:
    is_constant = op.operation.name == "coreai.constant"
    found: dict[str, Any] = {
        "name": op.operation.name,
        "types": [str(result.type) for result in op.results],
        "operands": len(op.operands),
        "attributes": {} if is_constant else _attributes(op),
        "blocks": [
            [_operation(inner, resources) for inner in region.blocks[0].operations]
            for region in op.regions
            if len(region.blocks)
        ],
    }
    # The binding ends the process if it is asked for elements of less than 8 bits outside of resources.
    is_narrow = re.search(r"[su]i[1-7]>", found["types"][0]) is not None if found["types"] else False
    if is_constant and ("dense_resource" in str(op.attributes["value"])[:20] or not is_narrow):
        found["sha256"] = hashlib.sha256(_elements(op.attributes["value"], resources)).hexdigest()
    return found


def _elements(attribute: Any, resources: dict[str, bytes]) -> bytes:
    """Returns the elements of a constant: packed from a resource, or as NumPy has them."""
    import numpy as np
    from coreai._compiler.ir import DenseElementsAttr  # type: ignore[import-not-found,unused-ignore]

    found = re.match(r"dense_resource<(\w+)>", str(attribute)[:80])
    if found is not None:
        return resources[found[1]]
    elements = DenseElementsAttr(attribute)
    splat = re.match(r"dense<(true|false)>", str(attribute)[:80])
    if splat is not None:  # The binding reads past the only byte of these.
        return bytes([splat[1] == "true"]) * len(elements)
    return np.array(elements).tobytes()


if __name__ == "__main__":
    print(json.dumps(_describe(sys.argv[1])))
