"""Types of models in words."""

from __future__ import annotations

from collections.abc import Mapping

#: Display names of Apple's model types, on the page as well (`tools/make_types.py`).
KIND_NAMES: Mapping[str, str] = {
    "mlProgram": "ML Program",
    "coreAIProgram": "Core AI program",
    "onnx": "ONNX model",
    "neuralNetwork": "neural network",
    "neuralNetworkClassifier": "neural network classifier",
    "neuralNetworkRegressor": "neural network regressor",
    "pipeline": "pipeline",
    "pipelineClassifier": "pipeline classifier",
    "pipelineRegressor": "pipeline regressor",
    "visionFeaturePrint": "Vision feature print",
    "audioFeaturePrint": "audio feature print",
    "soundAnalysisPreprocessing": "sound preprocessing",
    "textClassifier": "text classifier",
    "wordTagger": "word tagger",
    "gazetteer": "gazetteer",
    "wordEmbedding": "word embedding",
    "customModel": "custom model",
    "linkedModel": "linked model",
    "identity": "identity",
    "nonMaximumSuppression": "non-maximum suppression",
    "treeEnsembleClassifier": "tree ensemble classifier",
    "treeEnsembleRegressor": "tree ensemble regressor",
    "supportVectorClassifier": "support vector classifier",
    "supportVectorRegressor": "support vector regressor",
    "glmClassifier": "generalized linear classifier",
    "glmRegressor": "generalized linear regressor",
    "kNearestNeighborsClassifier": "k-nearest neighbors classifier",
    "bayesianProbitRegressor": "Bayesian probit regressor",
    "itemSimilarityRecommender": "item similarity recommender",
    "scaler": "scaler",
    "imputer": "imputer",
    "normalizer": "normalizer",
    "oneHotEncoder": "one-hot encoder",
    "dictVectorizer": "dictionary vectorizer",
    "featureVectorizer": "feature vectorizer",
    "arrayFeatureExtractor": "array feature extractor",
    "categoricalMapping": "categorical mapping",
}
#: First letters of words that follow "an", also of letters that are spoken one by one.
_VOWELS = ("a", "e", "i", "o", "ML", "ONNX")


def kind_name(kind: str) -> str:
    """Returns the display name of one of Apple's model types: `tree ensemble regressor`."""
    return KIND_NAMES.get(kind, kind)


def kind_with_article(kind: str) -> str:
    """Returns the display name of a model type with its article: `an array feature extractor`."""
    name = kind_name(kind)
    return f"{'an' if name.startswith(_VOWELS) else 'a'} {name}"
