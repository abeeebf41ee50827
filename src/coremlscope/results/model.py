"""Descriptions of models and of bundles of models, as shown by `inspect`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from coremlscope.base.findings import Finding
from coremlscope.base.units import short_repr
from coremlscope.results.encoding import MODEL, plain
from coremlscope.results.left_out import LEFT_OUT_AT_MOST
from coremlscope.results.operations import OpTable
from coremlscope.results.presentation import Presented

#: The labels of the facts that name the version of Apple's compiler, and what read a Core AI bundle.
COMPILED_BY, READ_BY = "compiled by", "read by"

_Pairs = tuple[tuple[str, str], ...]


class ClassLabels(msgspec.Struct, frozen=True):
    """The number of classes of a classifier, and the first few."""

    count: int
    first: tuple[str | int, ...]


class WeightGroup(msgspec.Struct, frozen=True, kw_only=True):
    """The weights that are stored in one way.

    Attributes:
        storage: `fp16`, `LUT 4-bit`, `affine int8`, `sparse fp16`.
        dtype: The element type as seen by operations.
        tensors: Number of weights.
        parameters: Their elements, decompressed.
        nbytes: Bytes in the file, scales and tables included.
    """

    storage: str
    dtype: str
    tensors: int
    parameters: int
    nbytes: int


class StageSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A model of a pipeline that is not a pipeline itself.

    Attributes:
        name: Its path in the pipeline: `model0`, `encoder/model1`. The ids of its operations begin with it.
        kind: Apple's name of the model type.
        inputs: Name and readable type of each input.
        outputs: Name and readable type of each output.
        facts: Other contents of its file: pairs of label and readable value.
        absent: Why it cannot be run here, as the end of a sentence; empty if it can be run.
        operations: Number of operations without constants; None where unknown.
        parameters: Number of parameters.
        weights_bytes: Bytes of its parameters in the file.
    """

    name: str
    kind: str
    inputs: _Pairs
    outputs: _Pairs
    facts: _Pairs = ()
    absent: str = ""
    operations: int | None = None
    parameters: int = 0
    weights_bytes: int = 0

    @property
    def id(self) -> str:
        """The id of its row in op tables if it is not run."""
        return f"{self.name}/main"


class FeatureSummary(msgspec.Struct, frozen=True, kw_only=True):
    """An input, output or state.

    Attributes:
        type: The readable type: `float16 1×3×224×224`.
        shape: The default tensor shape; None for other types.
        flexibility: The allowed shapes in readable form; empty for a fixed shape.
        preprocessing: The preprocessing of pixels in the program, for image inputs.
    """

    name: str
    type: str
    shape: tuple[int, ...] | None = None
    flexibility: str = ""
    is_optional: bool = False
    doc: str = ""
    preprocessing: str = ""


class WorkSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The declared work of one prediction at the bound shapes; derived from the file, not measured.

    Attributes:
        flops: FLOPs; a multiply-add counts as two.
        is_complete: False if a shape or an operation is unknown, so that the figures are lower bounds.
        unknown_ops: Number of operations of each unknown type.
        left_out_share: The share of the parameters that operations of unknown types read. Where it is above
            0.2, reports give no figures of the work.
        live_bytes: The most bytes of inputs and results that are alive at the same time, by their declared
            types; None where a size is not known, and in older profiles.
        sizes: The sizes of flexible inputs that the figures are for: `x 768×768`; empty for fixed ones.
    """

    flops: int = 0
    read_bytes: int = 0
    weight_bytes: int = 0
    written_bytes: int = 0
    is_complete: bool = True
    unknown_ops: Mapping[str, int] = msgspec.field(default_factory=dict)
    left_out_share: float = 0.0
    live_bytes: int | None = None
    sizes: str = ""

    @property
    def is_too_incomplete(self) -> bool:
        """Whether the figures leave out so much that they say nothing about the model."""
        return self.left_out_share > LEFT_OUT_AT_MOST

    def __add__(self, other: WorkSummary) -> WorkSummary:
        return WorkSummary(
            flops=self.flops + other.flops,
            read_bytes=self.read_bytes + other.read_bytes,
            weight_bytes=self.weight_bytes + other.weight_bytes,
            written_bytes=self.written_bytes + other.written_bytes,
            is_complete=self.is_complete and other.is_complete,
            unknown_ops=dict((Counter(self.unknown_ops) + Counter(other.unknown_ops)).most_common()),
            left_out_share=max(self.left_out_share, other.left_out_share),
            # Parts run one after the other.
            live_bytes=None
            if self.live_bytes is None or other.live_bytes is None
            else max(self.live_bytes, other.live_bytes),
        )


class FunctionSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One function of a model.

    Attributes:
        opset: Apple's name of its operation set; empty if the model is not a program.
        opset_os: The first version of iOS that supports that set.
        ops: Number of operations of each type, most frequent first, without constants, with nested ones.
        constants: Number of constants.
        compute: Number of results of operations of each element type.
        work: The declared work; None if the model is not a program.
        largest_work: The same at the largest sizes of flexible inputs; None for fixed and unbounded ones.
        layers: Number of layers of each type in a neural network, most frequent first.
    """

    name: str
    inputs: tuple[FeatureSummary, ...]
    outputs: tuple[FeatureSummary, ...]
    states: tuple[FeatureSummary, ...] = ()
    predicted_feature: str = ""
    predicted_probabilities: str = ""
    opset: str = ""
    opset_os: str = ""
    ops: Mapping[str, int] = msgspec.field(default_factory=dict)
    constants: int = 0
    compute: Mapping[str, int] = msgspec.field(default_factory=dict)
    work: WorkSummary | None = None
    largest_work: WorkSummary | None = None
    layers: Mapping[str, int] = msgspec.field(default_factory=dict)


class ModelSummary(Presented, msgspec.Struct, frozen=True, kw_only=True):
    """The description of a model.

    Attributes:
        path: The path from which it was read; empty for bytes.
        container: `mlpackage`, `mlmodel`, `mlmodelc` or `aimodel`; empty if the model could not be read.
        kind: Apple's name of the model type: `mlProgram`, `neuralNetwork`, …; empty if the model could not be
            read.
        platforms: The oldest systems that read it.
        functions: The functions, the default one first; empty if the model could not be read.
        stages: The models of a pipeline in order, those of nested pipelines included.
        weights: The parameters by storage format.
        parameters: Number of parameters.
        weights_bytes: Bytes of all parameters in the file.
        missing_weights: Names of weight files that are absent.
        short_weights: Names of weight files that end before a weight that the program refers to.
        facts: Pairs of label and value: other contents of the file, for classical models and models whose
            content is not in the file; what was assumed; and why layers cannot be run.
        absent: Why such a model cannot be run here, as the end of a sentence; empty for others.
        findings: Why Core ML refuses the model, and image outputs that are black. Empty in profiles, which
            have their own findings.
        ops: All operations of the default function except constants, if requested; for a pipeline those of
            all stages. A stage that cannot be run is one row. Empty in profiles, which have their own op
            table.
    """

    path: str
    container: str = ""
    kind: str = ""
    spec_version: int = 0
    platforms: str = ""
    size_bytes: int = 0
    functions: tuple[FunctionSummary, ...] = ()
    description: str = ""
    version: str = ""
    author: str = ""
    licence: str = ""
    user_defined: Mapping[str, str] = msgspec.field(default_factory=dict)
    is_updatable: bool = False
    stages: tuple[StageSummary, ...] = ()
    labels: ClassLabels | None = None
    weights: tuple[WeightGroup, ...] = ()
    parameters: int = 0
    weights_bytes: int = 0
    missing_weights: tuple[str, ...] = ()
    short_weights: tuple[str, ...] = ()
    facts: _Pairs = ()
    absent: str = ""
    findings: tuple[Finding, ...] = ()
    ops: OpTable = msgspec.field(default_factory=OpTable)

    __repr__ = short_repr

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values, with the schema's name."""
        return {"schema": MODEL, **plain(self)}

    @property
    def main(self) -> FunctionSummary:
        """The default function.

        Raises:
            IndexError: The model could not be read.
        """
        return self.functions[0]


class ListedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model in a bundle.

    Attributes:
        name: Its name in the bundle: the end of its path, as far as no other model has it.
        source: What names it for commands and functions: `App.ipa#Detector.mlmodelc`, or the path on disk.
        inside: Its path in the bundle.
        container: `mlmodelc`, `mlpackage`, `mlmodel` or `aimodel`.
        kind: Apple's name of the model type; empty if it is unknown.
        spec_version: Core ML's specification version; 0 if it is unknown.
        functions: The names of its functions.
        size_bytes: The total size of its files.
        problem: Why it cannot be read; empty if it can.
    """

    name: str
    source: str
    inside: str
    container: str
    kind: str = ""
    spec_version: int = 0
    functions: tuple[str, ...] = ()
    size_bytes: int
    problem: str = ""


class BundleSummary(msgspec.Struct, frozen=True):
    """A bundle.

    Attributes:
        path: Its path.
        container: `folder`, `zip` or `pte`.
        models: The models in it, by path.
    """

    path: str
    container: str
    models: tuple[ListedModel, ...]
