"""Lowers tree ensembles to ONNX-ML's `TreeEnsemble`, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from coremlscope.base.errors import UnsupportedModelError
from coremlscope.ops.classical.interface import F64, Interface
from coremlscope.ops.classical.trees.model import (
    LEAF,
    TreeEnsemble,
    TreeEnsembleClassifier,
    TreeEnsembleRegressor,
)
from coremlscope.ops.emit import I64, Tensor
from coremlscope.ops.program import ML_DOMAIN

#: ONNX Runtime builds trees recursively, and much deeper trees exhaust its stack.
MOST_BRANCHES = 4096
#: Attributes of `TreeEnsemble`.
_SUM, _NO_TRANSFORM = 1, 0
_EQUAL, _NOT_EQUAL = 4, 5
#: The largest table of all leaves and all sums: this multiple of the values, plus this number of elements.
_TABLE_FACTOR, _TABLE_FREE = 4, 2**20

_Array = npt.NDArray[Any]


def lower_tree_ensemble_regressor(content: TreeEnsembleRegressor, interface: Interface) -> None:
    """Lowers a `TreeEnsembleRegressor`."""
    sums = _sums(content.trees, interface)
    op, count = interface.op, len(content.trees.base.numpy())
    match content.transform:
        case "Regression_Logistic":
            sums = op.emit("Sigmoid", sums)
        case "Classification_SoftMax":
            sums = op.emit("Softmax", sums, axis=1)
        case "Classification_SoftMaxWithZeroClassReference":
            raise interface.error(f"is transformed by {content.transform}, which needs classes")
    interface.give(interface.only_output(), sums, count)


def lower_tree_ensemble_classifier(content: TreeEnsembleClassifier, interface: Interface) -> None:
    """Lowers a `TreeEnsembleClassifier`."""
    op, sums = interface.op, _sums(content.trees, interface)
    match content.transform:
        case "Regression_Logistic":
            sums = op.emit("Sigmoid", sums)
        case "Classification_SoftMaxWithZeroClassReference":
            sums = op.emit("Concat", op.const([[0.0]], F64), sums, axis=1)
            sums = op.emit("Softmax", sums, axis=1)
        case "Classification_SoftMax":
            sums = op.emit("Softmax", sums, axis=1)
    is_single = len(content.trees.base.numpy()) == 1 and content.transform[-9:] != "Reference"
    if is_single:
        sums = op.emit("Concat", op.emit("Sub", op.const(1.0, F64), sums), sums, axis=1)
    # If two classes are equally probable, the second is the label, as coremltools' converters expect.
    is_last = 1 if is_single else 0
    index = op.emit("ArgMax", sums, dtype=I64, axis=1, keepdims=0, select_last_index=is_last)
    interface.give_classes(index, sums, content.labels)


def _sums(trees: TreeEnsemble, interface: Interface) -> Tensor:
    """The sums of the base and the values of the reached leaves, fp64 `[1, dimensions]`."""
    if trees.depth > MOST_BRANCHES:
        raise UnsupportedModelError(
            f"a tree of the {interface.kind} is {trees.depth} branches deep; the limit is {MOST_BRANCHES}",
            "limit the depth of trees in training",
        )
    x = interface.row()
    sizes = [interface.size(name) for name in interface.inputs]
    highest = int(trees.feature_indices.numpy().max())
    if None not in sizes and highest >= sum(size or 0 for size in sizes):
        held = sum(size or 0 for size in sizes)
        raise interface.error(f"compares the feature {highest}, but its inputs hold {held} numbers")
    nodes = _Nodes(trees)
    base = interface.op.reshape(interface.weight(trees.base, "base"), (1, -1))
    return interface.op.emit("Add", base, _added(trees, nodes, x, interface))


def _added(trees: TreeEnsemble, nodes: _Nodes, x: Tensor, interface: Interface) -> Tensor:
    """The sum of the values of the leaves that `x` reaches, fp64 `[1, dimensions]`."""
    op, dimensions = interface.op, len(trees.base.numpy())
    leaves = nodes.leaf_rows[trees.evaluated_leaves.numpy()]
    targets, values = trees.evaluated_dimensions.numpy(), trees.evaluations.numpy()
    counts = np.bincount(leaves, minlength=nodes.leaf_count)
    if counts.max(initial=0) <= 1:
        weights, ids = np.zeros(nodes.leaf_count), np.zeros(nodes.leaf_count, np.int64)
        weights[leaves], ids[leaves] = values, targets
        return nodes.emit(interface, x, weights, ids, dimensions)
    # A leaf of `TreeEnsemble` holds one number. Here it is the leaf's row in a table, with one sum per tree.
    rows = nodes.emit(
        interface, x, np.arange(nodes.leaf_count, dtype=np.float64), nodes.tree_of_leaf, nodes.trees
    )
    reached = op.reshape(op.cast(rows, I64), (-1,))
    if nodes.leaf_count * dimensions <= _TABLE_FACTOR * len(values) + _TABLE_FREE:
        table = np.zeros((nodes.leaf_count, dimensions))
        np.add.at(table, (leaves, targets.astype(np.int64)), values)
        chosen = op.emit("Gather", interface.emitter.array(table), reached, axis=0)
        return op.emit("ReduceSum", chosen, op.const([0], I64), keepdims=1)
    ones = op.emit("Expand", op.const([1.0], F64), op.const([nodes.trees], I64))
    is_reached = op.emit(
        "ScatterElements", interface.emitter.array(np.zeros(nodes.leaf_count)), reached, ones, axis=0
    )
    share = op.emit("Gather", is_reached, interface.emitter.array(leaves.astype(np.int64)), axis=0)
    added = op.emit("Mul", interface.emitter.array(values), share)
    zeros, dimension = op.const(np.zeros(dimensions), F64), interface.emitter.array(targets.astype(np.int64))
    sums = op.emit("ScatterElements", zeros, dimension, added, axis=0, reduction="add")
    return op.reshape(sums, (1, -1))


class _Nodes:
    """The nodes of trees in the form of `TreeEnsemble`: branches and leaves have separate numbers.

    Attributes:
        trees: The number of trees.
        leaf_rows: The leaf number of each node; meaningless for branches.
        leaf_count: The number of leaves.
        tree_of_leaf: The tree of each leaf.
    """

    def __init__(self, ensemble: TreeEnsemble) -> None:
        self._ensemble = ensemble
        self._behaviors: _Array = ensemble.behaviors.numpy()
        self._is_leaf: npt.NDArray[np.bool_] = self._behaviors == LEAF
        self.trees = len(ensemble.roots.numpy())
        self.leaf_rows: _Array = np.cumsum(self._is_leaf) - 1
        self.leaf_count = int(self._is_leaf.sum())
        self._trees = self._tree_of_nodes()
        self.tree_of_leaf: _Array = self._trees[self._is_leaf]
        roots: _Array = ensemble.roots.numpy()
        self._bare: _Array = roots[self._is_leaf[roots]]

    def _tree_of_nodes(self) -> _Array:
        trees = np.zeros(len(self._behaviors), np.int64)
        level: _Array = self._ensemble.roots.numpy()
        trees[level] = np.arange(self.trees)
        true, false = self._ensemble.true_children.numpy(), self._ensemble.false_children.numpy()
        while level.size:
            branches = level[~self._is_leaf[level]]
            for children in (true, false):
                trees[children[branches]] = trees[branches]
            level = np.concatenate([true[branches], false[branches]])
        return trees

    def emit(self, interface: Interface, x: Tensor, weights: _Array, targets: _Array, count: int) -> Tensor:
        """Adds a node that sums the weights of the reached leaves, fp64 `[1, count]`.

        Args:
            interface: Takes the node.
            x: fp64 `[1, features]`.
            weights: The weight of each leaf.
            targets: The sum of each leaf.
            count: The number of sums.
        """
        from onnx import helper, numpy_helper

        attributes = self._branches()
        attributes |= {
            "leaf_weights": numpy_helper.from_array(self._with_copies(weights)),
            "leaf_targetids": self._with_copies(targets).tolist(),
            "n_targets": count,
            "aggregate_function": _SUM,
            "post_transform": _NO_TRANSFORM,
        }
        emitter = interface.emitter
        result = Tensor(emitter.unique(f"{emitter.owner}/TreeEnsemble:0"), F64)
        # `Emitter.node` would format every attribute to find a kernel, and these attributes can be long.
        node = helper.make_node("TreeEnsemble", [x.name], [result.name], result.name, domain=ML_DOMAIN)
        node.attribute.extend(helper.make_attribute(key, value) for key, value in attributes.items())
        emitter.nodes.append(node)
        emitter.owners[result.name] = emitter.owner
        return result

    def _with_copies(self, of_leaves: _Array) -> _Array:
        """Values of all leaves, and again those of the roots that are leaves."""
        return np.concatenate([of_leaves, of_leaves[self.leaf_rows[self._bare]]])

    def _branches(self) -> dict[str, Any]:
        """The attributes of all branches.

        A root that is a leaf gets a branch, as `TreeEnsemble` requires, to the leaf and to a copy of it:
        before version 1.30, ONNX Runtime computes wrong sums if both ways lead to the same leaf.
        """
        from onnx import numpy_helper

        ensemble, is_leaf = self._ensemble, self._is_leaf
        inner = np.flatnonzero(~is_leaf)
        rows: _Array = np.cumsum(~is_leaf) - 1
        modes, missing = self._behaviors[inner].copy(), ensemble.missing_is_true.numpy()[inner].copy()
        true, false = ensemble.true_children.numpy()[inner], ensemble.false_children.numpy()[inner]
        # ONNX Runtime's `≠` holds for NaN, wherever missing values go: use `=` with the children swapped.
        swapped = modes == _NOT_EQUAL
        true, false = np.where(swapped, false, true), np.where(swapped, true, false)
        missing, modes = missing ^ swapped, np.where(swapped, _EQUAL, modes)
        roots = ensemble.roots.numpy()
        bare = self._bare
        starts = rows[roots]
        starts[is_leaf[roots]] = len(inner) + np.arange(len(bare))

        def children(nodes: _Array) -> tuple[_Array, _Array]:
            nodes = np.concatenate([nodes, bare])
            leaf = is_leaf[nodes]
            return np.where(leaf, self.leaf_rows[nodes], rows[nodes]), leaf

        (true_ids, true_leaf), (false_ids, false_leaf) = children(true), children(false)
        false_ids[len(inner) :] = self.leaf_count + np.arange(len(bare))
        more = np.zeros(len(bare))
        return {
            "tree_roots": starts.tolist(),
            "nodes_featureids": np.concatenate([ensemble.feature_indices.numpy()[inner], more])
            .astype(int)
            .tolist(),
            "nodes_splits": numpy_helper.from_array(
                np.concatenate([ensemble.thresholds.numpy()[inner], more])
            ),
            "nodes_modes": numpy_helper.from_array(np.concatenate([modes, more]).astype(np.uint8)),
            "nodes_truenodeids": true_ids.tolist(),
            "nodes_trueleafs": true_leaf.astype(int).tolist(),
            "nodes_falsenodeids": false_ids.tolist(),
            "nodes_falseleafs": false_leaf.astype(int).tolist(),
            "nodes_missing_value_tracks_true": np.concatenate([missing, more]).astype(int).tolist(),
        }
