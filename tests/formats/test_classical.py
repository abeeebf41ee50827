"""Reading classical models: the parameters, and what must agree."""

from __future__ import annotations

import numpy as np
import pytest

from coremlscope import ir
from coremlscope.classical import CLASSICAL_TYPES
from coremlscope.classical.linear import GLMClassifier, GLMRegressor
from coremlscope.errors import CorruptModelError
from coremlscope.schema import Message, message_class
from tests.support.classical_specs import classifier, read_spec, regressor


def test_a_regressor() -> None:
    model = read_spec(regressor([[1, 2], [3, 4]], [5, 6], 2))
    assert model.kind == "glmRegressor"
    assert model.content == GLMRegressor(
        ir.constant(np.float64([[1, 2], [3, 4]])), ir.constant(np.float64([5, 6])), "Probit"
    )


@pytest.mark.parametrize("labels", [("a", "b", "c"), (3, 1, 2)])
def test_a_classifier(labels: tuple[str, ...] | tuple[int, ...]) -> None:
    content = read_spec(classifier([[1], [2], [3]], [4, 5, 6], labels, encoding=1)).content
    assert isinstance(content, GLMClassifier)
    assert (content.transform, content.encoding, content.labels) == ("Logit", "OneVsRest", labels)


def test_every_kind_is_one_of_the_specification() -> None:
    kinds = {field.name for field in message_class("Model").DESCRIPTOR.oneofs_by_name["Type"].fields}
    assert set(CLASSICAL_TYPES) <= kinds


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (regressor([[1, 2]], [1, 2]), "1 rows of weights and 2 offsets"),
        (regressor([[1, 2], [3]], [1, 2]), r"rows of \[1, 2\] weights"),
        (regressor([[]], [1], inputs={"x": {"doubleType": {}}}), "weights"),
        (regressor([[1]], [1], 7), r"unknown PostEvaluationTransform \(7\)"),
        (classifier([[1], [2]], [1, 2], ["a", "b"]), "2 rows of weights for 2 classes encoded as Reference"),
        (classifier([[1], [2]], [1, 2], ["a", "b"], encoding=1), "2 rows of weights for 2 classes"),
        (classifier([[1], [2]], [1, 2], ["a", "b", "c"], encoding=1), "for 3 classes encoded as OneVsRest"),
        (classifier([[1], [2]], [1, 2], ["a", "b", "c"], transform=1), "Probit for 3 classes"),
        (classifier([[1]], [1], ["a", "b"], encoding=9), r"unknown ClassEncoding \(9\)"),
    ],
)
def test_parameters_that_contradict_each_other(spec: Message, sentence: str) -> None:
    with pytest.raises(CorruptModelError, match=sentence):
        read_spec(spec)
