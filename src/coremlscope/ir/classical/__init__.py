"""Classical models: what Core ML computes without a graph, as typed parameters."""

from coremlscope.ir.classical.feature_engineering import (
    ArrayFeatureExtractor,
    CategoricalMapping,
    DictVectorizer,
    FeatureVectorizer,
    Identity,
    Imputer,
    Norm,
    Normalizer,
    OneHotEncoder,
    Scaler,
)
from coremlscope.ir.classical.linear import ClassEncoding, GLMClassifier, GLMRegressor, Transform
from coremlscope.ir.classical.neighbors import KNearestNeighborsClassifier, NeighborIndex, NeighborWeighting
from coremlscope.ir.classical.probit import BayesianProbitRegressor
from coremlscope.ir.classical.recommender import ItemSimilarityRecommender
from coremlscope.ir.classical.support_vectors import (
    DenseVectors,
    Kernel,
    LinearKernel,
    PolyKernel,
    RBFKernel,
    SigmoidKernel,
    SparseVectors,
    SupportVectorClassifier,
    SupportVectorRegressor,
    SupportVectors,
)
from coremlscope.ir.classical.suppression import NonMaximumSuppression
from coremlscope.ir.classical.trees import (
    LEAF,
    TreeEnsemble,
    TreeEnsembleClassifier,
    TreeEnsembleRegressor,
    TreeTransform,
)

__all__ = [
    "LEAF",
    "ArrayFeatureExtractor",
    "BayesianProbitRegressor",
    "CategoricalMapping",
    "ClassEncoding",
    "Classical",
    "DenseVectors",
    "DictVectorizer",
    "FeatureVectorizer",
    "GLMClassifier",
    "GLMRegressor",
    "Identity",
    "Imputer",
    "ItemSimilarityRecommender",
    "KNearestNeighborsClassifier",
    "Kernel",
    "LinearKernel",
    "NeighborIndex",
    "NeighborWeighting",
    "NonMaximumSuppression",
    "Norm",
    "Normalizer",
    "OneHotEncoder",
    "PolyKernel",
    "RBFKernel",
    "Scaler",
    "SigmoidKernel",
    "SparseVectors",
    "SupportVectorClassifier",
    "SupportVectorRegressor",
    "SupportVectors",
    "Transform",
    "TreeEnsemble",
    "TreeEnsembleClassifier",
    "TreeEnsembleRegressor",
    "TreeTransform",
]

#: Every kind of classical model that is read in full.
Classical = (
    GLMRegressor
    | GLMClassifier
    | TreeEnsembleRegressor
    | TreeEnsembleClassifier
    | SupportVectorRegressor
    | SupportVectorClassifier
    | KNearestNeighborsClassifier
    | BayesianProbitRegressor
    | ItemSimilarityRecommender
    | NonMaximumSuppression
    | OneHotEncoder
    | Imputer
    | FeatureVectorizer
    | DictVectorizer
    | Scaler
    | CategoricalMapping
    | Normalizer
    | ArrayFeatureExtractor
    | Identity
)
