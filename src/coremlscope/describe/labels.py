"""Finds the class labels of classifiers."""

from __future__ import annotations

from coremlscope.model.ir import Constant, Graph, Model, Nested, Value
from coremlscope.results.model import ClassLabels
from coremlscope.runtime.execution.binding import choose_function

#: Class labels that a summary lists; the rest is counted.
_FIRST_LABELS = 8
#: The same for models that can only be described, not run.
_FIRST_LABELS_OF_EXTERNAL = 100


def find_labels(model: Model, function: str) -> ClassLabels | None:
    """Returns the classes of a function, or of a pipeline's last classifier; None where there are none."""
    content = model.content
    if content.functions:
        return _labels_of_graph(choose_function(model, function).function.graph)
    most = _FIRST_LABELS_OF_EXTERNAL if content.absent else _FIRST_LABELS
    if content.labels:
        return ClassLabels(len(content.labels), tuple(content.labels[:most]))
    found = (find_labels(stage, stage.description.default) for stage in reversed(content.models))
    return next((labels for labels in found if labels is not None), None)


def _labels_of_graph(graph: Graph) -> ClassLabels | None:
    for op in (op for op in graph.walk() if op.type == "classify"):
        argument = next(iter(op.inputs.get("classes", ())), None)
        classes = _content(graph, argument.name) if isinstance(argument, Value) else argument
        if isinstance(classes, Constant) and classes.is_available:
            labels = _items(classes)
            return ClassLabels(len(labels), tuple(labels[:_FIRST_LABELS]))
    return None


def _content(graph: Graph, name: str) -> Constant | None:
    """Returns the value of a `const` operation of a graph by the name of its result."""
    return next(
        (op.constant for op in graph.walk() if op.constant and any(out.name == name for out in op.outputs)),
        None,
    )


def _items(classes: Constant) -> list[str | int]:
    if isinstance(classes.data, Nested):
        return [item for member in classes.data.items for item in _items(member)]
    return [
        item if isinstance(item, (str, int)) else str(item) for item in classes.numpy().reshape(-1).tolist()
    ]
