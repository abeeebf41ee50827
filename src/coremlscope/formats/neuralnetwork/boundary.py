"""The inputs and outputs of networks: conversion between features and blobs of layers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

import numpy as np
from msgspec.structs import replace

from coremlscope.base.errors import CorruptModelError
from coremlscope.formats.neuralnetwork.builder import FLOAT, Blob, Builder, CannotTranslate
from coremlscope.model.ir import (
    ArrayFeature,
    DType,
    Feature,
    FunctionDescription,
    ImageFeature,
    Shape,
    constant,
    default_shape,
)

DAMAGED = "the file is damaged or was written by a faulty tool; export or download the model again"


class Boundary:
    """Converts the features of a network to blobs of its layers and back.

    Args:
        kind: `neuralNetwork`, `neuralNetworkClassifier` or `neuralNetworkRegressor`.
        name: The name of the function.
        interface: The inputs and outputs of the model.
        shapes: The shapes of inputs by name, instead of those in the description.
        is_exact: True if arrays keep their shape; False if they are mapped to five dimensions.
        is_rank_4: True if images have four dimensions inside the network; False for five.
        written: The names of the blobs that layers write, each as often as it is written.

    Attributes:
        builder: Emits the operations.
        writers: For each output that is a layer's result without any conversion, the number of layers
            that write it. The result of the last one gets the output's name.
    """

    def __init__(
        self,
        *,
        kind: str,
        name: str,
        interface: FunctionDescription,
        shapes: Mapping[str, Shape],
        is_exact: bool,
        is_rank_4: bool,
        written: Iterable[str],
    ) -> None:
        self.kind, self.name, self.interface = kind, name, interface
        self.shapes, self.is_exact, self.is_rank_4 = shapes, is_exact, is_rank_4
        self.builder = Builder(name, [f.name for f in (*interface.inputs, *interface.outputs)])
        arrays = (f for f in interface.inputs if isinstance(f.type, ArrayFeature) and f.type.takes_sequences)
        #: True if an input has all five dimensions. Then outputs have five dimensions as well.
        self.is_sequential = any(len(shapes.get(feature.name) or ()) == 5 for feature in arrays)
        self._given: dict[str, Blob] = {}
        self._mapped_names: dict[str, str] = {}
        counts = Counter(written)
        self.writers = {f.name: counts[f.name] for f in interface.outputs if self._is_as_written(f)}

    @property
    def is_classifier(self) -> bool:
        """True if the model has class labels."""
        return self.kind == "neuralNetworkClassifier"

    def input(self, feature: Feature) -> Blob:
        """Adds an input of the model, and defines the blob that layers read under its name."""
        b, type_ = self.builder, feature.type
        b.feature = feature.name
        shape = self.shapes.get(feature.name) or default_shape(type_)
        given = b.input(feature.name, DType.INT32 if _is_integer(feature) else FLOAT, shape)
        blob = b.floats(given)
        with suppress(CannotTranslate):  # the rank is unknown; layers that need it fail
            blob = self._mapped(blob, isinstance(type_, ImageFeature))
        b.scope[feature.name] = blob
        self._given[feature.name], self._mapped_names[feature.name] = given, blob.value.name
        return given

    def _mapped(self, blob: Blob, is_image: bool) -> Blob:
        """Converts an input to the layout of the network's version; see `Blob.sequence`."""
        if self.is_rank_4 if is_image else self.is_exact:
            return blob
        shape = blob.shape
        match len(shape):
            case 4 if is_image:
                return replace(blob, sequence=1)
            case 5:
                folded = (shape[0] * shape[1], *shape[2:])
                return replace(self.builder.op("reshape", x=blob, shape=folded), sequence=shape[0])
            case 1:
                full = (1, shape[0], 1, 1)
            case rank if rank <= 4:
                full = (1,) * (4 - rank) + tuple(shape)  # type: ignore[assignment]
            case rank:
                raise CannotTranslate(f"an input of rank {rank} cannot be mapped to five dimensions")
        return replace(self.builder.op("reshape", x=blob, shape=full), sequence=1)

    def _is_as_written(self, feature: Feature) -> bool:
        """True if an output is a layer's result without any conversion."""
        images = any(isinstance(f.type, ImageFeature) for f in self.interface.inputs)
        # If there are images, arrays may have to be reshaped to the shape in their description.
        declared = isinstance(feature.type, ArrayFeature) and feature.type.shape
        is_exact = self.is_exact and (not images or (self.is_rank_4 and not declared))
        return is_exact and not _is_integer(feature) and not self.is_predicted(feature)

    def is_predicted(self, feature: Feature) -> bool:
        """True for the label and the probabilities of a classifier, which `label` emits."""
        i = self.interface
        return self.is_classifier and feature.name in (i.predicted_feature, i.predicted_probabilities)

    def define(self, names: Sequence[str], results: Sequence[Blob], mark: int, *, is_nested: bool) -> None:
        """Defines the results of a layer as blobs, and names the values after them where possible.

        Args:
            names: The names of the blobs.
            results: The results, one per name.
            mark: The number of operations before those of the layer; see `Builder.mark`.
            is_nested: True for a layer in a nested network.
        """
        for name, blob in zip(names, results, strict=True):
            is_last = False
            if not is_nested and name in self.writers:
                self.writers[name] -= 1
                is_last = not self.writers[name]
            self.builder.scope[name] = self.builder.rename(blob, name, mark, is_reserved=is_last)

    def label(self, labels: Sequence[str] | Sequence[int], source: str, *, are_strings: bool) -> list[Blob]:
        """Emits the label and the probabilities of a classifier.

        Args:
            labels: The labels of the classes.
            source: The blob with the probabilities.
            are_strings: True if labels are strings.

        Raises:
            CorruptModelError: The probabilities are undefined or do not match the labels.
        """
        i = self.interface
        if source not in self.builder.scope:
            raise CorruptModelError(f"the probabilities {source!r} of the classifier are undefined", DAMAGED)
        blob = self.builder.scope[source]
        self.builder.feature = i.predicted_feature
        classes = constant(np.array(labels, object if are_strings else np.int64))
        names = [i.predicted_feature, i.predicted_probabilities or self.builder.fresh("probabilities")]
        try:
            flat = self.builder.op("reshape", x=replace(blob, sequence=None), shape=(-1,))
            results = self.builder.ops("classify", 2, named=names, probabilities=flat, classes=classes)
        except CannotTranslate as error:
            raise CorruptModelError(f"the label of the classifier is invalid: {error}", DAMAGED) from None
        return list(results if i.predicted_probabilities else results[:1])

    def output(self, feature: Feature) -> Blob:
        """Returns an output of the model, and converts the layer's result if necessary.

        Raises:
            CorruptModelError: No layer writes the output, or it has the name of an input.
        """
        b, name = self.builder, feature.name
        b.feature = name
        if name not in b.scope:
            raise CorruptModelError(f"the output {name!r} is undefined", DAMAGED)
        if name in self._given:
            if b.origin(b.scope[name]) != self._mapped_names[name]:
                raise CorruptModelError(
                    f"an input and a different output have the same name {name!r}", DAMAGED
                )
            return self._given[name]
        blob = b.scope[name]
        if blob.value.name == name:
            return blob
        try:
            return self._shaped(blob, feature)
        except CannotTranslate:  # the shape is unknown before run time, or a layer has no translation
            return b.op("identity", named=name, x=replace(blob, sequence=None))

    def _shaped(self, blob: Blob, feature: Feature) -> Blob:
        """Converts a blob to an output of the model, with the name, shape and type of the description."""
        b, name = self.builder, feature.name
        if _is_integer(feature):
            folded, blob = blob.sequence, b.cast(replace(blob, sequence=None), DType.INT32)
            blob = replace(blob, sequence=folded)
        if blob.sequence is not None:
            shape, blob = self._outer_shape(blob, feature), replace(blob, sequence=None)
            if shape != blob.dims:
                return b.op("reshape", named=name, x=blob, shape=shape)
            return b.op("identity", named=name, x=blob)
        if self._is_described_otherwise(blob, feature):
            return b.op("reshape", named=name, x=blob, shape=default_shape(feature.type))
        return b.op("identity", named=name, x=blob)

    def _is_described_otherwise(self, blob: Blob, feature: Feature) -> bool:
        """True if an array has another shape than in its description, but the same number of elements."""
        wanted = default_shape(feature.type)
        if not wanted or self.shapes or not isinstance(feature.type, ArrayFeature) or None in blob.dims:
            return False
        return wanted != blob.shape and math.prod(wanted) == math.prod(blob.shape)

    def _outer_shape(self, blob: Blob, feature: Feature) -> tuple[int, ...]:
        """Returns the output shape of a rank-5 blob, as an app sees it."""
        sequence = blob.sequence or 1
        merged, *rest = blob.shape
        batch = merged // sequence
        if isinstance(feature.type, ImageFeature):
            return (merged, *rest)
        if self.is_sequential or sequence * batch != 1:
            return (sequence, batch, *rest)
        declared = feature.type.shape if isinstance(feature.type, ArrayFeature) else ()
        if declared and math.prod(declared) == math.prod(rest):
            return declared
        return tuple(rest[:1] if rest[1:] == [1, 1] else rest)


def _is_integer(feature: Feature) -> bool:
    return isinstance(feature.type, ArrayFeature) and feature.type.dtype.is_int
