"""pyobjc's modules `CoreML` and `Foundation`, scripted: plans that put every operation on the CPU.

`python -c "from tests.support import scripted_frameworks; scripted_frameworks.install()"` puts them in place.
Names, argument forms and the thread of completion handlers are those of pyobjc-framework-CoreML 12.2.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from coremlscope.formats import container
from coremlscope.ir import Graph, Op, Program

__all__ = ["install"]


class MLCPUComputeDevice:
    """The only device."""


class MLModelConfiguration:
    """A configuration, whose setters are found at run time by pyobjc."""

    @classmethod
    def alloc(cls) -> MLModelConfiguration:
        return cls()

    def init(self) -> MLModelConfiguration:
        return self

    def setComputeUnits_(self, units: int) -> None:  # noqa: N802
        self.units = units

    def setFunctionName_(self, name: str) -> None:  # noqa: N802
        self.function = name


class _Named:
    def __init__(self, name: str) -> None:
        self._name = name

    def name(self) -> str:
        return self._name


class _Operation:
    def __init__(self, op: Op, function: str) -> None:
        self._op, self.function = op, function

    def operatorName(self) -> str:  # noqa: N802
        return f"ios18.{self._op.type}"

    def outputs(self) -> list[_Named]:
        return [_Named(value.name) for value in self._op.outputs]

    def blocks(self) -> list[_Block]:
        return [_Block(block, self.function) for block in self._op.blocks]


class _Block:
    def __init__(self, graph: Graph, function: str) -> None:
        self._graph, self._function = graph, function

    def block(self) -> _Block:
        return self

    def operations(self) -> list[_Operation]:
        return [_Operation(op, self._function) for op in self._graph.ops]


class _Usage:
    def preferredComputeDevice(self) -> MLCPUComputeDevice:  # noqa: N802
        return MLCPUComputeDevice()

    def supportedComputeDevices(self) -> list[MLCPUComputeDevice]:  # noqa: N802
        return [MLCPUComputeDevice()]


class _Cost:
    def weight(self) -> float:
        return 0.125


class _Plan:
    """Says nothing of constants and of functions other than the one in the configuration."""

    def __init__(self, program: Program, function: str) -> None:
        self._program, self._function = program, function

    def modelStructure(self) -> _Plan:  # noqa: N802
        return self

    def program(self) -> _Plan:
        return self

    def functions(self) -> dict[str, _Block]:
        return {name: _Block(f.graph, name) for name, f in self._program.functions.items()}

    def computeDeviceUsageForMLProgramOperation_(self, op: _Operation) -> _Usage | None:  # noqa: N802
        is_told = op.function == self._function and not op.operatorName().endswith(".const")
        return _Usage() if is_told else None

    def estimatedCostOfMLProgramOperation_(self, op: _Operation) -> _Cost | None:  # noqa: N802
        return _Cost() if self.computeDeviceUsageForMLProgramOperation_(op) else None


class MLComputePlan:
    """Loads plans; the handler is called in a thread of its own, as Core ML does."""

    @staticmethod
    def loadContentsOfURL_configuration_completionHandler_(  # noqa: N802
        url: Path, configuration: MLModelConfiguration, handler: Callable[[Any, Any], None]
    ) -> None:
        content = container.read(url).content
        assert isinstance(content, Program)
        assert configuration.units == 0, "the scripted framework is asked for cpu_only"
        if configuration.function not in content.functions:
            answer = None, "Error Domain=com.apple.CoreML Code=0: no such function"
        else:
            answer = _Plan(content, configuration.function), None
        threading.Thread(target=handler, args=answer).start()


class _URL:
    @staticmethod
    def fileURLWithPath_(path: str) -> Path:  # noqa: N802
        return Path(path)


def install() -> None:
    """Puts the modules where `import CoreML` finds them."""
    framework, foundation = ModuleType("CoreML"), ModuleType("Foundation")
    for name, value in {
        "MLComputePlan": MLComputePlan,
        "MLModelConfiguration": MLModelConfiguration,
        "MLComputeUnitsCPUOnly": 0,
        "MLComputeUnitsAll": 2,
    }.items():
        setattr(framework, name, value)
    foundation.NSURL = _URL  # type: ignore[attr-defined]
    sys.modules["CoreML"], sys.modules["Foundation"] = framework, foundation
