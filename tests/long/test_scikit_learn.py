"""Models converted by coremltools from scikit-learn and XGBoost, compared with these libraries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from coremlscope.formats import container
from coremlscope.runtime.execution.pipeline import open_predictor

pytestmark = pytest.mark.long

sklearn = pytest.importorskip("sklearn")

from sklearn.datasets import make_classification, make_regression  # noqa: E402
from sklearn.ensemble import (  # noqa: E402
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.neighbors import KNeighborsClassifier  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import Normalizer, OneHotEncoder, StandardScaler  # noqa: E402
from sklearn.svm import SVC, SVR, NuSVC, NuSVR  # noqa: E402
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor  # noqa: E402

_FEATURES = 6


def _regression() -> tuple[Any, Any]:
    x, y = make_regression(150, _FEATURES, noise=3, random_state=1)
    return x.astype(np.float32).astype(np.float64), y / 50


def _classification(classes: int) -> tuple[Any, Any]:
    x, y = make_classification(
        150, _FEATURES, n_informative=4, n_classes=classes, n_clusters_per_class=1, flip_y=0.2, random_state=2
    )
    return x.astype(np.float32).astype(np.float64), y


def _results(fitted: Any, x: Any) -> list[dict[str, Any]]:
    from coremltools.converters import sklearn as converter
    from coremltools.models.datatypes import Array

    spec = converter.convert(fitted, [("data", Array(x.shape[1]))], "target").get_spec()
    with open_predictor(container.read(spec.SerializeToString())) as predictor:
        return [predictor.predict({"data": row}) for row in x]


@pytest.mark.parametrize(
    "model",
    [
        DecisionTreeRegressor(random_state=1),
        RandomForestRegressor(n_estimators=30, random_state=1),
        GradientBoostingRegressor(random_state=1),
        SVR(),
        SVR(kernel="poly", degree=2, coef0=0.5),
        NuSVR(kernel="sigmoid", gamma=0.05),
        make_pipeline(StandardScaler(), SVR(kernel="linear")),
        make_pipeline(Normalizer("l1"), DecisionTreeRegressor(random_state=1)),
    ],
    ids=str,
)
def test_regressors(model: Any) -> None:
    x, y = _regression()
    model.fit(x, y)
    given = [result["target"] for result in _results(model, x)]
    np.testing.assert_allclose(given, model.predict(x), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(
    "model",
    [
        DecisionTreeClassifier(max_depth=4, random_state=1),
        RandomForestClassifier(n_estimators=30, random_state=1),
        GradientBoostingClassifier(n_estimators=20, random_state=1),
        KNeighborsClassifier(1),
        SVC(),
        NuSVC(kernel="poly", nu=0.3),
    ],
    ids=str,
)
def test_classifiers(model: Any, classes: int) -> None:
    x, y = _classification(classes)
    model.fit(x, y)
    results = _results(model, x)
    labels = [result["target"] for result in results]
    if "classProbability" not in results[0]:
        assert labels == model.predict(x).tolist()
        return
    expected = model.predict_proba(x)
    given = np.array([[result["classProbability"][label] for label in range(classes)] for result in results])
    # For a multi-class forest, coremltools writes the sum over the trees instead of the mean.
    np.testing.assert_allclose(given / given.sum(1, keepdims=True), expected, atol=1e-6)
    np.testing.assert_allclose(expected[range(len(x)), labels], expected.max(1), atol=1e-6)


def test_probabilities_of_support_vectors() -> None:
    x, y = _classification(3)
    model = SVC(probability=True, random_state=1).fit(x, y)
    given = [[result["classProbability"][label] for label in range(3)] for result in _results(model, x)]
    np.testing.assert_allclose(given, model.predict_proba(x), atol=1e-9)


def test_one_hot() -> None:
    x = np.array([[0, 1], [1, 0], [2, 2], [3, 3]], np.float64)
    model = OneHotEncoder().fit(x)
    given = [result["target"] for result in _results(model, x)]
    np.testing.assert_array_equal(given, model.transform(x).toarray())


@pytest.mark.parametrize("classes", [0, 2, 3])
def test_xgboost(classes: int) -> None:
    xgboost = pytest.importorskip("xgboost")
    from coremltools.converters import xgboost as converter

    x, y = _classification(classes) if classes else _regression()
    x[np.random.default_rng(3).random(x.shape) < 0.1] = np.nan
    x = np.ascontiguousarray(x, np.float32)
    made = xgboost.XGBClassifier if classes else xgboost.XGBRegressor
    # coremltools always writes this base score, whatever the base score of the fitted model.
    model = made(n_estimators=40, max_depth=4, base_score=0.5).fit(x, y)
    names = [f"f{index}" for index in range(_FEATURES)]
    options = {"mode": "classifier", "n_classes": classes} if classes else {}
    spec = converter.convert(model, names, "target", **options).get_spec()
    with open_predictor(container.read(spec.SerializeToString())) as predictor:
        results = [predictor.predict(dict(zip(names, row, strict=True))) for row in x.tolist()]
    if classes:
        given = [list(result["classProbability"].values()) for result in results]
        np.testing.assert_allclose(given, model.predict_proba(x), atol=1e-5)
    else:
        np.testing.assert_allclose([r["target"] for r in results], model.predict(x), rtol=1e-4, atol=1e-5)
