"""Core AI's own interpreter as a reference: the values of the operations of a bundle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from coremlscope.base.budget import Budget
from coremlscope.base.errors import UsageError
from coremlscope.measure.coreai.measurer import require_coreai
from coremlscope.measure.coreai.values import VALUES_CHILD, record_values
from coremlscope.model.ir import Array, Model
from coremlscope.runtime.execution.binding import choose_function
from coremlscope.verification.intermediates import Intermediate, Run

#: Name given as the reference instead of a file.
CORE_AI = "coreai"
#: The part of the machine's memory that the values may take, as in `own_run`.
_MEMORY_PART = 8


class CoreAIReference:
    """Runs the verified bundle itself by Core AI's interpreter.

    Args:
        model: The verified model.
        function: Its function; None for the default one.
        command: The child process to run; tests give another one.

    Raises:
        UsageError: The model is not a Core AI bundle.
        MissingDependencyError: coreai-core is not installed.
    """

    def __init__(
        self, model: Model, function: str | None = None, command: Sequence[str] = VALUES_CHILD
    ) -> None:
        if model.container != "aimodel" or model.source is None:
            raise UsageError(
                "Core AI runs .aimodel bundles only", "give the file of another reference for other models"
            )
        if command is VALUES_CHILD:
            require_coreai("a program of torch.export as the reference needs no coreai-core")
        self.label = f"Core AI's interpreter, {model.source.name}"
        self._source: Path = model.source
        self._name = choose_function(model, function).name
        self._most_bytes = Budget.of_model(model.size_bytes).memory_bytes // _MEMORY_PART
        self._command = command

    def run(self, inputs: Mapping[str, Array], before: Sequence[Mapping[str, Array]] = ()) -> Run:
        """Runs the bundle; see `Reference.run`. Its values are paired with ours by their elements."""
        found = record_values(self._source, self._name, inputs, self._most_bytes, command=self._command)
        values = {name: Intermediate(name=name, array=array) for name, array in inputs.items()}
        for place, result in enumerate(found.results):
            name = f"{result.op.name} {place}"
            values[name] = Intermediate(name=name, array=result.array, op=result.op.name)
        values.update(
            {name: Intermediate(name=name, array=one, op=name) for name, one in found.outputs.items()}
        )
        return Run(
            label=f"{self.label}, coreai-core {found.version}",
            values=values,
            outputs={name: name for name in found.outputs},
        )
