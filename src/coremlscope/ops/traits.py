"""Traits of operations: the properties that placement rules, planned costs and estimates match on."""

from __future__ import annotations

from enum import Flag, auto


class Trait(Flag):
    """A property of an operation that some rule, fusion or cost formula reads.

    The row of an operation names its traits once; everything else asks for traits, not for names. A trait
    exists only if something reads it, so an operation that only rules of its own mention has none.

    Most operations have one trait, which decides the kind of their kernel. Those in the last group come in
    addition to another one.
    """

    # Element by element.

    #: A function that networks apply behind a layer. Every kernel that computes can end with it.
    ACTIVATION = auto()
    #: A function of one element that units evaluate by a table or a comparison. Every kernel can end with it.
    FUNCTION = auto()
    #: Basic arithmetic on two tensors, which broadcast. By a constant, every kernel can end with it.
    ARITHMETIC = auto()
    #: Makes, combines or applies masks: comparisons, logic, selection.
    MASK = auto()
    #: Any other function of the elements at one place; it needs a pass of its own.
    ELEMENTWISE = auto()
    #: Changes the element type: a cast, a quantization.
    CONVERSION = auto()
    #: Scales and shifts each channel by constants; folds into the weights of the layer before.
    CHANNEL_SCALE = auto()

    # Sums of products.

    #: A convolution. Its weight is the parameter `weight`.
    CONVOLUTION = auto()
    #: A linear layer. Its weight is the parameter `weight`.
    LINEAR = auto()
    #: A product of two matrices or tensors. A constant one is the parameter `y`.
    MATRIX_PRODUCT = auto()
    #: Attention as one operation.
    ATTENTION = auto()
    #: A recurrent layer over all steps of a sequence.
    RECURRENCE = auto()

    # Many elements to one, and normalizations.

    #: Combines the elements of a window.
    POOLING = auto()
    #: Combines the elements along axes, to one or to running results.
    REDUCTION = auto()
    #: Gives the place of an extreme element along an axis, as an integer.
    ARG_REDUCTION = auto()
    #: Orders the elements along an axis.
    SORTING = auto()
    #: Softmax along an axis.
    SOFTMAX = auto()
    #: Normalizes by mean and variance over the axes that it names.
    NORMALIZATION = auto()
    #: Normalizes by mean and variance over whole maps.
    MAP_NORMALIZATION = auto()
    #: Divides by a norm of the elements around.
    VECTOR_NORMALIZATION = auto()

    # Moves elements without computing.

    #: The same elements in the same order; only the shape differs.
    RESHAPE = auto()
    #: Puts the axes in another order.
    TRANSPOSITION = auto()
    #: Rearranges single elements: between channels, pixels, windows and the batch.
    REARRANGEMENT = auto()
    #: Copies whole rows: joins, splits, repeats, pads, reverses.
    COPY = auto()
    #: Cuts a part out. `begin`, `end` and `size` say where, not what.
    SLICE = auto()
    #: Replaces a part, as a key-value cache does. `begin` and `end` say where, not what.
    UPDATE = auto()
    #: Picks elements by `indices`.
    GATHER = auto()
    #: Replaces elements by index.
    SCATTER = auto()
    #: Resizes, crops or warps images.
    RESIZING = auto()
    #: Makes a tensor out of a few numbers.
    GENERATION = auto()
    #: Draws random numbers.
    RANDOM = auto()

    # Around the arithmetic.

    #: Gives the content of a state; nothing moves.
    STATE_READ = auto()
    #: Gives a state new content.
    STATE_WRITE = auto()
    #: Unpacks a compressed weight, before run time.
    WEIGHT_DECOMPRESSION = auto()
    #: Runs nested blocks.
    CONTROL_FLOW = auto()
    #: Works on lists of tensors.
    LIST = auto()

    # In addition to another trait.

    #: A convolution whose weight has the input channels first.
    TRANSPOSED = auto()
    #: Turns 8-bit steps back into numbers: what takes its result can compute with the steps.
    DEQUANTIZATION = auto()
    #: A mean, or a sum of values, magnitudes or squares: what a normalization divides by begins with it.
    SUMMATION = auto()
    #: An activation between 0 and 1: `x * gate(x)` is one activation, too.
    GATE = auto()
    #: An activation that multiplies by a gate of its own.
    GATED = auto()


#: Of operations that only rules of their own mention, and of those without a row.
NO_TRAITS = Trait(0)


def trait_names(traits: Trait) -> tuple[str, ...]:
    """The traits in words, in the order of the enumeration."""
    return tuple((trait.name or "").lower().replace("_", " ") for trait in traits)
