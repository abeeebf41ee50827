from __future__ import annotations

import json

import numpy as np
from PIL import Image

from coremlscope.reports.prediction import prediction_document, render_prediction_json
from coremlscope.reports.terminal.writer import write_terminal
from tests.support import golden

RESULTS = {
    "label": "cat",
    "label_probs": {"dog": 0.2, "cat": 0.5, "cow": 0.1, "pig": 0.1, "hen": 0.06, "bee": 0.04},
    "mask": Image.new("RGBA", (6, 4)),
    "features": np.float32([[1.5, -2, np.nan, 4, 5, 6, 7]]),
    "count": np.int32([3]),
}


def test_console() -> None:
    golden.check("prediction.txt", write_terminal(prediction_document(RESULTS), width=80))


def test_scores_that_are_not_probabilities() -> None:
    text = write_terminal(prediction_document({"scores": {"a": 12.0, "b": -3.0}}))
    assert "%" not in text
    assert text.index("12") < text.index("-3")


def test_json() -> None:
    data = json.loads(render_prediction_json(RESULTS))
    assert data["label"] == "cat"
    assert data["label_probs"]["cow"] == 0.1
    assert data["mask"] == {"image": "RGBA", "width": 6, "height": 4}
    assert data["features"] == {"dtype": "float32", "shape": [1, 7], "elements": [1.5, -2, None, 4, 5, 6, 7]}
