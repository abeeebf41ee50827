"""Failures of the Neural Engine and its compiler, but those that a placement rule quotes."""

from __future__ import annotations

from coremlscope.planning.hazards.lines.failure import (
    COREMLTOOLS,
    PUBLIC_NOTES,
    SEE_PLAN,
    Failure,
)
from coremlscope.planning.patterns.publications import ANEMLL, COMPILER_TEXTS, HOLLANCE, MOBIUS

NEURAL_ENGINE: tuple[Failure, ...] = (
    Failure(
        id="fp16-overflow",
        texts=("overflow",),
        pattern=r"Inference overflow|Espresso::overflow_error|overflow encountered in cast"
        r"|\b(?:fp16|float16|half|ANE)\b.{0,60}\boverflow|\boverflow\w*.{0,60}\b(?:fp16|float16)\b",
        cause="A value exceeds the range of float16 (65504) on the Neural Engine; results are zeros,"
        " infinite or NaN. It was also reported with batches above 1.",
        fix="find the operation: `coremlscope profile MODEL --precision fp16`, or `coremlscope verify`;"
        " scale its inputs, normalize earlier, or keep it in float32 on the GPU or CPU",
        source=f"{COREMLTOOLS} #1380, #1229, #1149",
        confidence="anecdotal",
        examples=(
            'Code=5 "processRequest:model:qos:qIndex:modelStringID:options:error:: 0x2: Program Inference'
            ' overflow"',
            "[espresso] [Espresso::overflow_error] /a.mlmodelc/model.espresso.net:3",
        ),
        negative_examples=("stack overflow",),
    ),
    Failure(
        id="e5rt-timeout",
        texts=(
            "submit async failed",
            "timed out",
            "timedout",
            "timeout occurred while computing",
        ),
        pattern=r"Submit Async failed|Async task: .{1,200}has timed out|CancelTimedOutAsyncTask"
        r"|Timeout occurred while computing the asynchronous prediction"
        r"|(?:E5RT|coreml|espresso).{0,200}(?:timed out|timeout)",
        cause="A prediction or one of its operations did not finish in time and was cancelled: the unit was"
        " busy or the device too slow, as on virtual machines. The model and its inputs need not be at"
        " fault.",
        fix="repeat the prediction; run fewer models at once; use CPU_AND_GPU or CPU_ONLY where it stays",
        source=f"drakulavich/kesha-voice-kit PR 661; {PUBLIC_NOTES}",
        confidence="anecdotal",
        examples=(
            '"E5RT: Submit Async failed for the program: it has timed out"',
            "Async task: Encoder_main__Op3_Cast has timed out. @ CancelTimedOutAsyncTask_block_invoke",
        ),
        negative_examples=("submitted 3 requests", "the request timed out after 30 s: https://example.org"),
    ),
    Failure(
        id="ane-timeout",
        texts=("program inference timeout",),
        cause="A program took longer than the Neural Engine's time limit: it is too large for one call.",
        fix="split the model or its input, compress the weights, or use CPU_AND_GPU or CPU_ONLY",
        source="pytorch/pytorch #110975",
        confidence="anecdotal",
        examples=(
            "ANEProgramProcessRequestDirect() Failed with status=0xf : statusType=0x11: Program Inference"
            " timeout:"
            " timed out",
        ),
        negative_examples=("the request timed out",),
    ),
    Failure(
        id="convolution-strides",
        texts=("strides of conv needs to be product",),
        cause="The Neural Engine's compiler cannot split the strides of a convolution into its factors."
        " Values were"
        " wrong there in a report: compare the units.",
        fix="compare the outputs of CPU_ONLY with those of ALL (`coremlscope verify`); use strides of 2, 3"
        " or 4",
        source=f"{COREMLTOOLS} #2173 (iPad)",
        confidence="anecdotal",
        op="conv",
        examples=("[1002:224143] Strides of Conv needs to be product of at most 2 interleave factors",),
        negative_examples=("strides of a convolution",),
    ),
    Failure(
        id="update-at-run-time",
        texts=("anecplistinterface::addoptonetwork",),
        cause="The Neural Engine's compiler crashed while it added an operation. Reported with slice_update"
        " at"
        " positions that are only known at run time.",
        fix="update at constant positions, or write with a mask: cache * (1 - mask) + new * mask;"
        " CPU_AND_GPU avoids"
        " it",
        source="apple/coreai-torch #6",
        confidence="anecdotal",
        op="slice_update",
        examples=(
            "frame #0: ANECompiler`mlir::anecir::ANECPlistInterface::addOpToNetwork(mlir::Operation*) +"
            " 31400",
        ),
        negative_examples=("addOpToNetwork",),
    ),
    Failure(
        id="dimension-limit",
        texts=("tensor", "dimension", "input dim >", "extent"),
        pattern=r"Tensor (?P<axis>\w{1,20}) goes beyond limit supported \((?P<extent>[\d/]{1,60}) >"
        r" (?P<limit>\d+)\)|Tensor dimensions (?P<shape>\w{1,80}) are not within supported range|does not"
        r" support input dim > (?P<most>\d+)(?:.{0,400}?shape:"
        r" ?(?P<dims>\{[\d,-]{1,80}\}))?|\b(?:tensor|dimension|extent)s?\b.{0,60}(?:greater than|larger"
        r" than|exceeds?|above|beyond) (?:the )?(?:supported|max\w*|limit)(?:\D{0,40}(?P<number>\d+))?",
        cause="A tensor is longer along an axis than the Neural Engine takes (16384, from A17 Pro and M4 on"
        " 65536), often because a dilated convolution doubles the width. The operation leaves the unit, or"
        " the whole program fails to compile; ONNX Runtime keeps it on the CPU.",
        fix="split the tensor along its longest axis before conversion, or fold the axis into two",
        source=f"{MOBIUS}; FluidInference/mobius #61; microsoft/onnxruntime #19543; apple/coremltools #1943",
        confidence="measured",
        rules=("ne-extent-16384", "ne-extent"),
        examples=(
            "Tensor dimensions N1D1C27H1W16386 are not within supported range",
            "ANE Error: Tensor size greater than supported",
            "Tensor width goes beyond limit supported (16414/16390 > 16384)",
            "CoreML does not support input dim > 16384. Input:/Reshape_output_0, shape: {1,32,65536}",
        ),
        negative_examples=("values are not within supported range", "the tensor is greater than zero"),
    ),
    Failure(
        id="kernel-limit",
        texts=("kernel validation warning", "unsupported: ", "large kernel", "must be ["),
        pattern=r"Kernel validation warning (?P<where>[^@\n]{1,200}) @ \d+: (?P<problem>.{1,120})"
        r"|Unsupported: (?P<parameter>[^\n=]{1,60}) = (?P<value>\d+) > (?P<limit>\d+)",
        cause="A layer's window, stride, dilation or scale is larger than the Neural Engine takes; the layer"
        " runs on another unit.",
        fix=f"use several smaller windows or strides; {SEE_PLAN}",
        source=f"{HOLLANCE}; hollance/neural-engine #2",
        confidence="anecdotal",
        rules=("ne-pool-before-2021", "ne-max-pool-width", "ne-conv-width", "ne-conv-height"),
        examples=(
            "Kernel validation warning PoolingLayerBuilder (AVERAGE)_41 (pool) @ 33: Unsupported:"
            " (dilated)kernel width = 28 > 13",
            "Unsupported: stride_x = 4 > 2",
        ),
        negative_examples=("Unsupported: option --fast",),
    ),
    Failure(
        id="layer-unsupported",
        texts=("not supported", "kernel not found", "unsupported engine"),
        pattern=r"(?:ANE|CoreML|Core ML|espresso|MPS)\b.{0,60}?\b(?P<layer>\w{2,60})"
        r" (?:layer|op|operation)s? (?:is )?not supported|kernel not found '(?P<kernel>\w{1,80})' on"
        r" platform|Unsupported engine type",
        cause="A unit, or this system, has no implementation of a layer. Core ML runs it on another unit"
        " where it can; where none has one, the model does not load.",
        fix="update the system, or replace the layer before conversion",
        source=f"{COREMLTOOLS} #1943; apple/turicreate #2048, #3078",
        confidence="anecdotal",
        examples=(
            "CoreML Error: Transpose layer not supported",
            "compiler error:  Encountered an error while compiling: kernel not found 'softmax_loss_grad' on"
            " platform 0",
        ),
        negative_examples=("this layer is not supported by the map",),
    ),
    Failure(
        id="unsupported-op",
        texts=("unsupported op ", "unsupported mil operation"),
        pattern=r"""Unsupported (?:op \d+ \(|MIL operation ["']?)(?P<op>[\w.]{1,80})""",
        cause="The Neural Engine does not run this operation, so that it and often its neighbours run on the"
        " CPU or GPU.",
        fix="replace the operation before conversion: `coremlscope ops NAME` shows the rules and fixes",
        source=f"{ANEMLL}; {MOBIUS}",
        confidence="measured",
        examples=("Unsupported op 12 (logical_or): no engine path",),
        negative_examples=("Unsupported option --fast",),
    ),
    Failure(
        id="unsupported-producer",
        texts=("unable to resolve operation input",),
        cause="The operation reads the result of another one that the Neural Engine rejected.",
        fix="fix the operation before it first",
        source=MOBIUS,
        confidence="measured",
        examples=("Unable to resolve operation input x",),
        negative_examples=("operation input x",),
    ),
    Failure(
        id="unsupported-neuron",
        texts=("doesn't support neuron",),
        pattern=r"doesn't support Neuron (?:ZinIrNeuronType::k(?P<op>\w{1,40}))?",
        cause="This generation of the Neural Engine lacks an activation; sine needs an A16, an M3 or later.",
        fix="compute it in advance (position tables) or replace it by a polynomial",
        source=MOBIUS,
        confidence="measured",
        examples=("This platform doesn't support Neuron ZinIrNeuronType::kSin (aka ZinIrNonLinearSin)",),
        negative_examples=("AWS Neuron",),
    ),
    Failure(
        id="argmax-axis",
        texts=("only channelwise or spatial argmax/min is supported on ane",),
        cause="The Neural Engine reduces to an index only along channels or over the spatial axes.",
        fix="transpose so that the axis is the channel, or compute the index in the app",
        source=COMPILER_TEXTS,
        confidence="static analysis",
        op="reduce_argmax",
        examples=("Only Channelwise or Spatial ArgMax/Min is supported on ANE",),
        negative_examples=("ArgMax is supported",),
    ),
)
