"""Crashes, by the frames and queues of their reports."""

from __future__ import annotations

from coremlscope.planning.hazards.lines.failure import COREMLTOOLS, TRY_UNITS, Failure
from coremlscope.planning.patterns.publications import FLUID_AUDIO

#: Words of a crash. A function that a line without them names need not have crashed.
_CRASH = r"EXC_|SIG(?:SEGV|ABRT|BUS|ILL|TRAP)|\bcrash|segmentation fault|abort trap"


def _crash_in(symbol: str) -> str:
    """The pattern of a crash in a function: a frame (`crash.py` makes `frame 3: IMAGE symbol` of those of any
    report), or a line that names both.
    """
    return rf"^(?:frame \d+: |(?=.*(?:{_CRASH}))).*?(?:{symbol})"


CRASHES: tuple[Failure, ...] = (
    Failure(
        id="bnns-crash",
        texts=("bnns::graphcompile", "bnnsgraphcompile", "bnns_graph"),
        pattern=_crash_in("bnns::GraphCompile|BNNSGraphCompile|bnns_graph"),
        cause="The CPU's graph compiler crashed while the model was loaded; seen on M5 with macOS 26.4 to"
        " 26.5.",
        fix="update to macOS 26.6 or later, or load with CPU_AND_GPU",
        source=f"soniqo/speech-swift #313, PR 314; {FLUID_AUDIO}",
        confidence="measured",
        examples=("frame 0: libBNNS.dylib bnns::GraphCompile(std::__1::shared_ptr<bnns::Graph>)",),
        negative_examples=("libBNNS.dylib was loaded",),
    ),
    Failure(
        id="bnns-execute",
        texts=("bnnsgraphcontextexecute", "bnnscpuinferenceoperation"),
        pattern=_crash_in("BNNSGraphContextExecute|BnnsCpuInferenceOperation"),
        cause="The CPU's part of an ML Program crashed while it ran. Known: a fused float16 attention of a"
        " large head and more than one query (macOS 26.5 and 26.6), a model with enumerated shapes (macOS"
        " 27.0.1, iOS 27.0), and iOS 26.4 betas.",
        fix="load with CPU_AND_GPU, or keep the operation off the CPU; convert for iOS 17, so that attention"
        " is matmul, softmax and matmul; update the system",
        source="kasper0406/stablehlo-coreml PR 89; FluidInference/FluidAudio #328",
        confidence="measured",
        examples=(
            "frame 5: libBNNS.dylib BNNSGraphContextExecute_v2",
            "BNNSGraphContextExecute_v2 EXC_BAD_ACCESS",
        ),
        negative_examples=("BNNSGraphContextExecute_v2 took 3 ms",),
    ),
    Failure(
        id="bnns-matrix-unit",
        texts=("_sme",),
        pattern=_crash_in(r"\w+_sme(?:_\w+)?\b"),
        cause="A float16 routine of the CPU for the matrix unit of A19, M4 and later (SME) crashed, on iOS"
        " and macOS 26 and 27; it comes and goes, after minutes of use.",
        fix="keep float16 work off the CPU: load with CPU_AND_NE or CPU_AND_GPU, or convert these operations"
        " to float32",
        source="FluidInference/FluidAudio #889, #844",
        confidence="measured",
        examples=("frame 0: libBNNS.dylib vadd_fp16_sme_internal",),
        negative_examples=("built with vadd_fp16_sme_internal",),
    ),
    Failure(
        id="conv-3d-crash",
        texts=("conv3d_kernel",),
        pattern=_crash_in("conv3d_kernel"),
        cause="The CPU's 3-D convolution of neural networks crashed; seen with large volumes (128×128×128).",
        fix="use smaller volumes or tiles, another unit, or an ML Program",
        source=f"{COREMLTOOLS} #2000",
        confidence="anecdotal",
        op="conv",
        examples=("frame 0: Espresso Espresso::conv3d_kernel_cpu::__launch(x)",),
        negative_examples=("conv3d_kernel has 3 parameters",),
    ),
    Failure(
        id="structure-load-crash",
        texts=("structureloadqueue",),
        pattern=r"queue ?[:=] ?.{0,100}structureLoadQueue",
        cause="Core ML was loading a model's structure, as MLModelStructure and MLComputePlan do. It compiles"
        " for the allowed units meanwhile, and aborts for a folder that is not a compiled model, such as an"
        " .mlpackage.",
        fix=f"give the compiled model (.mlmodelc) with coremldata.bin; {TRY_UNITS}",
        source=f"{COREMLTOOLS} #2757, #2595, PR 2780",
        confidence="anecdotal",
        is_general=True,
        examples=(
            "queue: com.apple.coreml.MLModelAssetResourceFactory.structureLoadQueue",
            "Triggered by Thread: 10, Dispatch Queue:"
            " com.apple.coreml.MLModelAssetResourceFactory.structureLoadQueue",
        ),
        negative_examples=("structureLoadQueue is idle", "queue: com.apple.main-thread"),
    ),
    Failure(
        id="program-load-crash",
        texts=("mle5programlibrary",),
        pattern=r"queue ?[:=] ?.{0,100}MLE5ProgramLibrary",
        cause="Core ML was loading an ML Program: it prepares the program for the allowed units there, so"
        " that the compiler of one of them crashed. Inputs play no part yet.",
        fix=f"look at the frames for the unit; {TRY_UNITS}; update the system",
        source="argmaxinc/argmax-oss-swift #264; soniqo/speech-swift #313; Muesli-HQ/muesli #344",
        confidence="anecdotal",
        is_general=True,
        examples=("Crashed Thread: 9 Dispatch queue: com.apple.coreml.MLE5ProgramLibrary.lazyInitQueue",),
        negative_examples=("MLE5ProgramLibrary was made",),
    ),
    Failure(
        id="prediction-crash",
        texts=("coremlbatchprocessingqueue", "e5rt", "espresso"),
        pattern=r"queue ?[:=] ?.{0,100}(?:CoreMLBatchProcessingQueue|e5rt|espresso)",
        cause="Core ML was predicting: CoreMLBatchProcessingQueue runs neural networks, the queues of e5rt"
        " the operations of ML Programs. The frames name the operation and the unit.",
        fix=f"look at the frames; check the inputs; use one instance of the model per thread; {TRY_UNITS}",
        source=f"{COREMLTOOLS} #1319, #1576, #2000; FluidInference/FluidAudio #328",
        confidence="anecdotal",
        is_general=True,
        examples=(
            "queue: com.apple.CoreMLBatchProcessingQueue",
            "Triggered by Thread: 3, Dispatch Queue: com.apple.e5rt.concurrentExecutionQueue",
        ),
        negative_examples=("the queue of e5rt", "queue: com.apple.main-thread"),
    ),
    Failure(
        id="crash-on-gpu",
        texts=("metalperformanceshadersgraph", "getmpsgraphexecutable", "agxmetal", "mpsgraph"),
        pattern=r"^frame \d+: (?:MetalPerformanceShaders|MPS|AGXMetal|.*(?:GetMPSGraphExecutable|MpsGraph))"
        r"|queue ?[:=] ?.{0,100}(?:MPSGraph|metal gpu stream|com\.Metal\.)",
        cause="The faulting thread was in MPSGraph or the GPU's driver; with MTLReportFailure above it, a"
        " check of theirs failed.",
        fix="load with CPU_AND_NE or CPU_ONLY to confirm it",
        source=f"{COREMLTOOLS} #2757, #2595",
        confidence="anecdotal",
        is_general=True,
        examples=("frame 4: MetalPerformanceShadersGraph -[MPSGraphExecutable initWithMLIR:]",),
        negative_examples=("MetalPerformanceShadersGraph was loaded",),
    ),
    Failure(
        id="crash-on-neural-engine",
        texts=("appleneuralengine", "anecompiler", "aneservices", "com.apple.ane", "aneruntimeengine"),
        pattern=r"^frame \d+: (?:AppleNeuralEngine|ANECompiler|ANEServices|.*ANE(?:Compiler|Runtime)Engine)"
        r"|queue ?[:=] ?.{0,100}com\.apple\.ane",
        cause="The faulting thread was in the Neural Engine's framework or compiler, or in Core ML's test of"
        " whether a layer runs there.",
        fix="load with CPU_AND_GPU to confirm it; split the model to find the operation",
        source=f"{COREMLTOOLS} #2758, #932",
        confidence="anecdotal",
        is_general=True,
        examples=(
            "frame 2: AppleNeuralEngine -[_ANEClient evaluateWithModel:]",
            "frame 0: Espresso Espresso::ANECompilerEngine::is_valid_for_engine_conv(x)",
        ),
        negative_examples=("AppleNeuralEngine: ready",),
    ),
    Failure(
        id="crash-in-core-ml",
        texts=("frame ", "queue", "espresso::", "e5rt::", "espressolight::"),
        pattern=r"^frame \d+: (?:CoreML|Espresso|MIL|MLCompilerRuntime|MLAssetIO|libBNNS)\b"
        r"(?:.*?(?P<kernel>\w{2,60}_kernel\w{0,20})\b)?"
        r"|queue ?[:=] ?.{0,100}com\.apple\.coreml\b"
        rf"|^(?=.*(?:{_CRASH})).*?\b(?:Espresso|E5RT"
        rf"|EspressoLight)::(?:.*?(?P<function>\w{{2,60}}_kernel\w{{0,20}})\b)?",
        cause="The faulting thread was in Core ML, in the kernel that is named, if one is. Predictions"
        " crashed where inputs did not fit the model, where one instance was used by two threads at once,"
        " and with single systems.",
        fix=f"use one instance of the model per thread; check the inputs; {TRY_UNITS}",
        source=f"{COREMLTOOLS} #1526, #1576, #1319, #1159; Apple: MLModel",
        confidence="anecdotal",
        is_general=True,
        examples=(
            "frame 3: CoreML -[MLModel predictionFromFeatures:error:]",
            "frame 6: Espresso Espresso::BNNSEngine::inner_product_kernel::__launch(x)",
            "EXC_BAD_ACCESS in Espresso::BNNSEngine::inner_product_kernel::__launch",
        ),
        negative_examples=("linked CoreML.framework", "Espresso::BNNSEngine::inner_product_kernel is ready"),
    ),
)
