"""Classical models: their messages to `ir`. One row a kind; what is read agrees with itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from coremlscope import ir
from coremlscope.formats.classical import feature_engineering as engineering
from coremlscope.formats.classical.linear import read_glm_classifier, read_glm_regressor
from coremlscope.formats.classical.neighbors import read_k_nearest_neighbors_classifier
from coremlscope.formats.classical.probit import read_bayesian_probit_regressor
from coremlscope.formats.classical.recommender import read_item_similarity_recommender
from coremlscope.formats.classical.support_vectors import (
    read_support_vector_classifier,
    read_support_vector_regressor,
)
from coremlscope.formats.classical.suppression import read_non_maximum_suppression
from coremlscope.formats.classical.trees import read_tree_ensemble_classifier, read_tree_ensemble_regressor
from coremlscope.formats.schema import Message

__all__ = ["READERS", "read_classical"]

#: By Apple's name of the model type.
READERS: Mapping[str, Callable[[Message], ir.Classical]] = {
    "glmRegressor": read_glm_regressor,
    "glmClassifier": read_glm_classifier,
    "treeEnsembleRegressor": read_tree_ensemble_regressor,
    "treeEnsembleClassifier": read_tree_ensemble_classifier,
    "supportVectorRegressor": read_support_vector_regressor,
    "supportVectorClassifier": read_support_vector_classifier,
    "kNearestNeighborsClassifier": read_k_nearest_neighbors_classifier,
    "bayesianProbitRegressor": read_bayesian_probit_regressor,
    "itemSimilarityRecommender": read_item_similarity_recommender,
    "nonMaximumSuppression": read_non_maximum_suppression,
    "oneHotEncoder": engineering.read_one_hot_encoder,
    "imputer": engineering.read_imputer,
    "featureVectorizer": engineering.read_feature_vectorizer,
    "dictVectorizer": engineering.read_dict_vectorizer,
    "scaler": engineering.read_scaler,
    "categoricalMapping": engineering.read_categorical_mapping,
    "normalizer": engineering.read_normalizer,
    "arrayFeatureExtractor": engineering.read_array_feature_extractor,
    "identity": engineering.read_identity,
}


def read_classical(kind: str, message: Message) -> ir.Classical:
    """Reads the message of a kind in `READERS`.

    Raises:
        CorruptModelError: Its parameters contradict each other.
    """
    return READERS[kind](message)
