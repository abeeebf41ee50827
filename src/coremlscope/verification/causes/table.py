"""The causes of a wrong value in float32: a row each, the simplest first."""

from __future__ import annotations

from typing import Final

from coremlscope.verification.causes.constants import propose_constants, propose_weights
from coremlscope.verification.causes.integers import propose_narrowed, propose_tie
from coremlscope.verification.causes.settings import propose_settings
from coremlscope.verification.causes.site import Row, Site
from coremlscope.verification.causes.substitution import propose_state, substituted

ROWS: Final[tuple[Row[Site], ...]] = (
    Row(
        cause="state",
        looks_like="a state holds zeros after a call, and the buffer of the reference does not",
        propose=propose_state,
        fix="write the state: coreml_update_state, or register_buffer and an assignment in PyTorch",
        source="https://apple.github.io/coremltools/docs-guides/source/stateful-models.html",
    ),
    Row(
        cause="tie",
        looks_like="an argmax, top-k or sort returns other places",
        propose=propose_tie,
        fix="accept either place, or compare the elements instead of the places",
        source="https://github.com/pytorch/pytorch/issues/41998",
    ),
    Row(
        cause="narrowed integers",
        looks_like="large indices or identifiers come back negative, or small",
        propose=propose_narrowed,
        fix="remove the pass common::add_int16_cast, or target iOS 16",
        source="https://github.com/apple/coremltools/issues/2222",
    ),
    Row(
        cause="weights",
        looks_like="one layer is off by its whole size, all before it are equal",
        propose=propose_weights,
        fix="load the weights of the reference, in the layout of MIL",
        source="https://apple.github.io/coremltools/source/coremltools.converters.mil.mil.ops.defs.html",
    ),
    Row(
        cause="setting",
        looks_like="values near edges differ, or all by a few per cent",
        propose=propose_constants,
        fix="give the operation the number of the reference",
        source="https://apple.github.io/coremltools/source/coremltools.converters.mil.mil.ops.defs.html",
    ),
    Row(
        cause="preprocessing",
        looks_like="all layers differ from the first one on",
        propose=substituted("preprocessing"),
        fix="convert with scale, bias and color_layout of ct.ImageType as the reference prepares its input",
        source="https://apple.github.io/coremltools/docs-guides/source/image-inputs.html",
    ),
    Row(
        cause="layout",
        looks_like="the right numbers in the wrong places",
        propose=substituted("layout"),
        fix="transpose where the reference does",
        source="https://apple.github.io/coremltools/source/coremltools.converters.mil.mil.ops.defs.html",
    ),
    Row(
        cause="setting",
        looks_like="values near edges differ, or all by a few per cent",
        propose=propose_settings,
        fix="set what the reference sets: mode, axis, padding, align_corners, order",
        source="https://apple.github.io/coremltools/source/coremltools.converters.mil.mil.ops.defs.html",
    ),
    Row(
        cause="missing operation",
        looks_like="values before and behind an operation of the reference differ",
        propose=substituted("missing operation", "epsilon"),
        fix="keep the operation: converters warn where they drop one",
        source="https://github.com/apple/coremltools/issues/1809",
    ),
    Row(
        cause="extra operation",
        looks_like="the model has an operation that the reference lacks",
        propose=substituted("extra operation"),
        fix="remove the operation",
        source="https://github.com/apple/coremltools/issues/2821",
    ),
    Row(
        cause="scale",
        looks_like="the cosine is 1, and the size another one",
        propose=substituted("scale", "offset", "sign"),
        fix="multiply, or add, as the reference does",
        source="https://apple.github.io/coremltools/source/coremltools.converters.mil.mil.ops.defs.html",
    ),
)
