"""Reads the parameters of tree ensembles."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from coremlscope.model import ir
from coremlscope.model.schema import Message
from coremlscope.ops.classical.messages import doubles, indices, name_of, read_labels, require
from coremlscope.ops.classical.trees.model import (
    LEAF,
    TreeEnsemble,
    TreeEnsembleClassifier,
    TreeEnsembleRegressor,
)

_TRANSFORM = "TreeEnsemblePostEvaluationTransform"
#: The highest number of sums without base values. It keeps one wrong number in a file from allocating more.
_MOST_EMPTY_DIMENSIONS = 2**16
_Positions = npt.NDArray[np.int32]


def read_tree_ensemble_regressor(message: Message) -> TreeEnsembleRegressor:
    """Reads a `TreeEnsembleRegressor`."""
    kind = TreeEnsembleRegressor.kind
    transform = name_of(message.postEvaluationTransform, _TRANSFORM, kind)
    return TreeEnsembleRegressor(_read_trees(message.treeEnsemble, kind), transform)


def read_tree_ensemble_classifier(message: Message) -> TreeEnsembleClassifier:
    """Reads a `TreeEnsembleClassifier`."""
    kind = TreeEnsembleClassifier.kind
    transform = name_of(message.postEvaluationTransform, _TRANSFORM, kind)
    trees = _read_trees(message.treeEnsemble, kind)
    labels = read_labels(message)
    sums, classes = len(trees.base.numpy()), len(labels)
    is_reference = transform == "Classification_SoftMaxWithZeroClassReference"
    wanted = (classes - 1,) if is_reference else (classes, 1) if classes == 2 else (classes,)
    require(sums in wanted, kind, f"{sums} sums for {classes} classes with {transform}")
    return TreeEnsembleClassifier(trees, transform, labels)


def _read_trees(message: Message, kind: str) -> TreeEnsemble:
    nodes = message.nodes
    require(len(nodes) > 0, kind, "no nodes")
    behaviors = np.array([node.nodeBehavior for node in nodes], np.int64)
    wrong = behaviors[(behaviors < 0) | (behaviors > LEAF)]
    require(not wrong.size, kind, f"an unknown TreeNodeBehavior ({wrong[:1]})")
    is_leaf = behaviors == LEAF
    pairs = list(zip(nodes, is_leaf.tolist(), strict=True))
    features = indices(
        (0 if leaf else node.branchFeatureIndex for node, leaf in pairs), 2**31, kind, "the feature"
    )
    true, false = _children(nodes, is_leaf, kind)
    roots, depth = _roots(nodes, true, false, is_leaf, kind)
    base = _base(message, kind)
    rates = [node.relativeHitRate for node in nodes]
    leaves, dimensions, values = _evaluations(nodes, is_leaf, len(base.numpy()), kind)
    return TreeEnsemble(
        behaviors=ir.constant(behaviors.astype(np.uint8)),
        feature_indices=ir.constant(features),
        thresholds=doubles(0.0 if leaf else node.branchFeatureValue for node, leaf in pairs),
        true_children=ir.constant(true),
        false_children=ir.constant(false),
        missing_is_true=ir.constant(np.array([node.missingValueTracksTrueChild for node in nodes], np.bool_)),
        hit_rates=doubles(rates if any(rates) else ()),
        roots=ir.constant(roots),
        evaluated_leaves=leaves,
        evaluated_dimensions=dimensions,
        evaluations=values,
        base=base,
        depth=depth,
    )


def _children(nodes: Any, is_leaf: npt.NDArray[np.bool_], kind: str) -> tuple[_Positions, _Positions]:
    """The children of each node; -1 for leaves."""
    positions: dict[tuple[int, int], int] = {}
    for position, node in enumerate(nodes):
        key = node.treeId, node.nodeId
        require(key not in positions, kind, f"two nodes {key[1]} in the tree {key[0]}")
        positions[key] = position
    true, false = np.full(len(nodes), -1, np.int32), np.full(len(nodes), -1, np.int32)
    for position in np.flatnonzero(~is_leaf).tolist():
        node = nodes[position]
        for child, target in ((node.trueChildNodeId, true), (node.falseChildNodeId, false)):
            found = positions.get((node.treeId, child))
            what = f"no node {child} in the tree {node.treeId}, which is a child of the node {node.nodeId}"
            require(found is not None, kind, what)
            target[position] = -1 if found is None else found
    return true, false


def _roots(
    nodes: Any, true: _Positions, false: _Positions, is_leaf: npt.NDArray[np.bool_], kind: str
) -> tuple[_Positions, int]:
    """The roots, and the largest number of branches from a root to a leaf."""
    inner = np.flatnonzero(~is_leaf)
    parents = np.bincount(np.concatenate([true[inner], false[inner]]), minlength=len(nodes))
    if parents.max() > 1:
        node = nodes[int(parents.argmax())]
        require(False, kind, f"{parents.max()} parents of the node {node.nodeId} of the tree {node.treeId}")
    roots = np.flatnonzero(parents == 0).astype(np.int32)
    trees = {node.treeId for node in nodes}
    require(len(roots) == len(trees), kind, f"{len(roots)} roots of {len(trees)} trees")
    level, reached, depth = roots, len(roots), -1
    while level.size:
        branches = level[~is_leaf[level]]
        level = np.concatenate([true[branches], false[branches]])
        reached, depth = reached + level.size, depth + 1
    require(reached == len(nodes), kind, f"{len(nodes) - reached} nodes that cannot be reached from a root")
    return roots, depth


def _base(message: Message, kind: str) -> ir.Constant:
    count, base = message.numPredictionDimensions, message.basePredictionValue
    require(count > 0, kind, "no prediction dimensions")
    require(len(base) in (0, count), kind, f"{len(base)} base values for {count} prediction dimensions")
    is_plausible = len(base) == count or count <= _MOST_EMPTY_DIMENSIONS
    require(is_plausible, kind, f"{count} prediction dimensions without base values")
    return doubles(base or [0.0] * count)


def _evaluations(
    nodes: Any, is_leaf: npt.NDArray[np.bool_], dimensions: int, kind: str
) -> tuple[ir.Constant, ir.Constant, ir.Constant]:
    """The values of leaves: the leaf, the sum and the value of each."""
    found = [
        (leaf, entry.evaluationIndex, entry.evaluationValue)
        for leaf in np.flatnonzero(is_leaf).tolist()
        for entry in nodes[leaf].evaluationInfo
    ]
    targets = indices((target for _, target, _ in found), dimensions, kind, "the prediction dimension")
    leaves = np.array([leaf for leaf, _, _ in found], np.int32)
    return ir.constant(leaves), ir.constant(targets), doubles(value for _, _, value in found)
