"""Failures of the Neural Engine and its compiler, but those that a placement rule quotes."""

from __future__ import annotations

from coremlscope.planning.patterns.publications import ANEMLL, COMPILER_TEXTS, HOLLANCE, MOBIUS
from coremlscope.studies.doctor.failures.failure import (
    CLEAR_CACHE,
    COREMLTOOLS,
    PUBLIC_NOTES,
    SEE_PLAN,
    TRY_UNITS,
    Failure,
)

NEURAL_ENGINE: tuple[Failure, ...] = (
    Failure(
        id="attention-on-neural-engine",
        texts=("live input tensor not used in network",),
        cause="The Neural Engine's compiler fails on a function with two or more fused attentions of a large"
        " head and a long key (macOS 26.5 and 26.6); the whole model then runs on the CPU without an error.",
        fix="convert for iOS 17, or so that these attentions stay matmul, softmax and matmul; one such"
        " attention a function",
        source="kasper0406/stablehlo-coreml PR 89",
        confidence="measured",
        op="scaled_dot_product_attention",
        examples=("ANECCompile() FAILED: live input tensor not used in network",),
        negative_examples=("the input tensor is not used",),
    ),
    Failure(
        id="ane-compile-failed",
        texts=("aneccompile", "failed to compile ane model", "compiler internal error"),
        pattern=r"ANECCompile(?:Offline)?(?:\([^)]{0,600}\))? ?(?:FAILED|produces|.{0,10}fail)"
        r"|failed to compile ANE model|Compiler internal error: (?P<problem>.{1,120})",
        cause="The Neural Engine's compiler rejected a part of the program. The load may still succeed and"
        " run that part on the CPU, often slower than CPU_ONLY, or the first prediction fails.",
        fix=f"use CPU_AND_GPU until the operation is found; {SEE_PLAN};"
        " bisect the model where no rule applies",
        source=f"{COREMLTOOLS} #2247, #2503; pytorch/executorch #19635; soniqo/speech-swift PR 466;"
        " apple/coreai-models #138",
        confidence="measured",
        examples=(
            "E5RT encountered an STL exception. msg = MILCompilerForANE error: failed to compile ANE model"
            " using ANEF. Error=_ANECompiler : ANECCompile() FAILED.",
            '"Compiler internal error: failed create split by input channel, graph is changed',
        ),
        negative_examples=("ANECCompile() finished in 3 s", "gcc: internal compiler error: Killed"),
    ),
    Failure(
        id="ane-reload-failed",
        texts=("must re-compile the e5 bundle", "program load failure"),
        pattern=r"Must re-compile the E5 bundle|Program load failure \((?P<code>0x[0-9a-f]+)\)",
        cause="The Neural Engine does not load a compiled program: it is too large for the unit or the"
        " device's memory, or a cached one no longer fits after an update or an interrupted compilation. The"
        " load can hang, or go on with other units.",
        fix=f"split or compress the model; {CLEAR_CACHE}; {TRY_UNITS}",
        source=f"apple/ml-stable-diffusion #26; jundot/omlx #2968; {PUBLIC_NOTES}",
        confidence="anecdotal",
        examples=(
            "ANE model load has failed for on-device compiled macho. Must re-compile the E5 bundle."
            " @ GetANEFModel",
            "exception=ANECF error: failed to load ANE model. Error=create: Program load failure (0x20004)",
        ),
        negative_examples=("compiled the E5 bundle",),
    ),
    Failure(
        id="ane-failed",
        texts=("anecf error", "ane load failed", "falling back to"),
        pattern=r"ANECF error|ANE load failed|Issues were found in compilation, falling back to",
        cause="Core ML could not use the Neural Engine for a part of the model, which then runs elsewhere;"
        " results stay right, but predictions are slower.",
        fix=f"look at the other lines; {SEE_PLAN}; CPU_AND_GPU avoids the attempt",
        source=f"{COREMLTOOLS} #1106, #1548",
        confidence="anecdotal",
        is_general=True,
        examples=("[espresso] ANECF error:",),
        negative_examples=("the ANECF folder",),
    ),
    Failure(
        id="ane-unload",
        texts=("nil _anemodel",),
        cause="Core ML unloads a model that the Neural Engine never loaded: it follows a failed compilation"
        " and is harmless by itself.",
        fix="look at the lines before it for why the Neural Engine was not used",
        source=f"{COREMLTOOLS} #1106; apple/ml-stable-diffusion #26",
        confidence="anecdotal",
        examples=("[client] doUnloadModel:options:qos:error:: nil _ANEModel",),
        negative_examples=("doUnloadModel finished",),
    ),
    Failure(
        id="ane-compiler-busy",
        texts=("anecompilerservice",),
        cause="The system's compiler for the Neural Engine is at work or hangs; convolutions with strides of"
        " 5 or 7 and very large graphs took minutes to hours.",
        fix="load with CPU_AND_GPU to see whether the compiler is the cause; split the model",
        source=f"{COREMLTOOLS} #2367, #2473; ggml-org/whisper.cpp #937",
        confidence="anecdotal",
        rules=("ne-slow-stride", "ne-slow-compile-kernel"),
        is_general=True,
        examples=("ANECompilerService 100.0 % CPU, 11.7 GB",),
        negative_examples=("the ANE compiler",),
    ),
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
        id="ane-inference",
        texts=(
            "program inference error",
            "ane inference operation failed",
            "evaluateanerequest",
            "evaluation failed",
            "aneprogramprocessrequest",
            "ane batch",
        ),
        pattern=r"(?:status=(?P<status>0x[0-9a-f]+) : statusType=(?P<type>0x[0-9a-f]+): )?Program Inference"
        r" error|ANE inference operation failed|EvaluateANERequest|ANE evaluation failed"
        r"|ANEProgramProcessRequest\w{0,40}(?:\(\))? Failed(?: with status=(?P<code>0x[0-9a-f]+))?"
        r"|ANE Batch: .{0,80}returned error(?!.{0,300}overflow)",
        cause="The Neural Engine broke off a prediction; the meaning of its codes is not published. It was"
        " reported after a failed compilation, for large programs, and on single systems (macOS 14.0, 26.4"
        " beta).",
        fix="load with CPU_AND_GPU to confirm it; update the system; split the model; look for ANECCompile"
        " before it",
        source="ggml-org/whisper.cpp #3702; invoke-ai/InvokeAI #4356; jundot/omlx #2940; 0seba/VoxCPMANE #10",
        confidence="anecdotal",
        examples=(
            "ANE inference operation failed due to unknown error. @ EvaluateANERequest",
            "ANEProgramProcessRequestDirect() Failed with status=0x16 : statusType=0x9: Program Inference"
            " error",
        ),
        negative_examples=("evaluation failed for 3 samples",),
    ),
    Failure(
        id="e5rt-timeout",
        texts=(
            "submit async failed",
            "timed out",
            "timedout",
            "timeout occurred while computing",
            "inference timeout",
        ),
        pattern=r"Submit Async failed|Async task: .{1,200}has timed out|CancelTimedOutAsyncTask"
        r"|Timeout occurred while computing the asynchronous prediction|Program Inference timeout"
        r"|(?:E5RT|ANE|coreml|espresso).{0,200}(?:timed out|timeout)",
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
        fix=f"update the system; {TRY_UNITS}; replace the layer before conversion",
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
    Failure(
        id="not-resident",
        texts=("marking all operations as non ane-resident", "bounces between the ane and"),
        cause="Too few operations can stay on the Neural Engine, so that the planner keeps all of them off"
        " it.",
        fix=f"{SEE_PLAN}; replace those that interrupt the graph",
        source=COMPILER_TEXTS,
        confidence="static analysis",
        examples=(
            "One or more network operations are not ANE-resident - Marking all operations as non"
            " ANE-resident",
        ),
        negative_examples=("all operations are ANE-resident",),
    ),
)
