"""Classical models to ONNX and ONNX-ML. One row a kind.

All is computed in float64, as Core ML does it. Strings, dictionaries and sequences are indices and numbers
here; see `Port.labels`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from coremlscope.ir import Classical
from coremlscope.lower.classical import feature_engineering as engineering
from coremlscope.lower.classical.interface import Interface
from coremlscope.lower.classical.linear import lower_glm_classifier, lower_glm_regressor
from coremlscope.lower.classical.neighbors import lower_k_nearest_neighbors_classifier
from coremlscope.lower.classical.probit import lower_bayesian_probit_regressor
from coremlscope.lower.classical.recommender import lower_item_similarity_recommender
from coremlscope.lower.classical.support_vectors import (
    lower_support_vector_classifier,
    lower_support_vector_regressor,
)
from coremlscope.lower.classical.suppression import lower_non_maximum_suppression
from coremlscope.lower.classical.trees import lower_tree_ensemble_classifier, lower_tree_ensemble_regressor
from coremlscope.ops.bind import BoundFunction
from coremlscope.ops.program import OnnxProgram

__all__ = ["LOWERINGS", "lower_classical"]

#: By Apple's name of the model type. Each takes a model of its own kind.
LOWERINGS: Mapping[str, Callable[[Any, Interface], None]] = {
    "glmRegressor": lower_glm_regressor,
    "glmClassifier": lower_glm_classifier,
    "treeEnsembleRegressor": lower_tree_ensemble_regressor,
    "treeEnsembleClassifier": lower_tree_ensemble_classifier,
    "supportVectorRegressor": lower_support_vector_regressor,
    "supportVectorClassifier": lower_support_vector_classifier,
    "kNearestNeighborsClassifier": lower_k_nearest_neighbors_classifier,
    "bayesianProbitRegressor": lower_bayesian_probit_regressor,
    "itemSimilarityRecommender": lower_item_similarity_recommender,
    "nonMaximumSuppression": lower_non_maximum_suppression,
    "oneHotEncoder": engineering.lower_one_hot_encoder,
    "imputer": engineering.lower_imputer,
    "featureVectorizer": engineering.lower_feature_vectorizer,
    "dictVectorizer": engineering.lower_dict_vectorizer,
    "scaler": engineering.lower_scaler,
    "categoricalMapping": engineering.lower_categorical_mapping,
    "normalizer": engineering.lower_normalizer,
    "arrayFeatureExtractor": engineering.lower_array_feature_extractor,
    "identity": engineering.lower_identity,
}


def lower_classical(content: Classical, bound: BoundFunction) -> OnnxProgram:
    """Lowers a classical model.

    Args:
        content: Its parameters.
        bound: The model seen as a function of one operation.

    Raises:
        CorruptModelError: The parameters do not fit the features.
        UnsupportedModelError: Something of it cannot be run here.
    """
    interface = Interface(content.kind, bound)
    LOWERINGS[content.kind](content, interface)
    return interface.program()
