"""Crashes, by the frames of their reports."""

from __future__ import annotations

from coremlscope.doctor.failures.failure import COREMLTOOLS, TRY_UNITS, Failure
from coremlscope.placement.publications import FLUID_AUDIO

__all__ = ["CRASHES"]

#: Lines that `crash.py` makes of the frames of a crash report: `frame 3: IMAGE symbol`.
CRASHES: tuple[Failure, ...] = (
    Failure(
        id="bnns-crash",
        texts=("bnns::GraphCompile", "BnnsGraph", "bnns_graph"),
        cause="The CPU's graph compiler crashed while the model was loaded; seen on M5 with macOS 26.4 to"
        " 26.5.",
        fix="update to macOS 26.6 or later, or load with CPU_AND_GPU",
        source=f"soniqo/speech-swift #313, PR 314; {FLUID_AUDIO}",
        confidence="measured",
        example="frame 0: libBNNS.dylib bnns::GraphCompile(std::__1::shared_ptr<bnns::Graph>)",
        negative_examples=("libBNNS.dylib was loaded",),
    ),
    Failure(
        id="structure-load-crash",
        texts=("structureLoadQueue",),
        pattern=r"queue: .{0,100}structureLoadQueue",
        cause="Core ML was loading a model's structure, as MLModelStructure and MLComputePlan do. It compiles"
        " for the allowed units meanwhile, and aborts for a folder that is not a compiled model, such as an"
        " .mlpackage.",
        fix=f"give the compiled model (.mlmodelc) with coremldata.bin; {TRY_UNITS}",
        source=f"{COREMLTOOLS} #2757, #2595, PR 2780",
        confidence="anecdotal",
        is_general=True,
        example="queue: com.apple.coreml.MLModelAssetResourceFactory.structureLoadQueue",
        negative_examples=("structureLoadQueue is idle", "queue: com.apple.main-thread"),
    ),
    Failure(
        id="crash-on-gpu",
        texts=("MetalPerformanceShadersGraph", "GetMPSGraphExecutable", "AGXMetal"),
        pattern=r"frame \d+: (?:MetalPerformanceShaders|AGXMetal)|GetMPSGraphExecutable",
        cause="The faulting thread was in MPSGraph or the GPU's driver.",
        fix="load with CPU_AND_NE or CPU_ONLY to confirm it",
        source=f"{COREMLTOOLS} #2757, #2595",
        confidence="anecdotal",
        is_general=True,
        example="frame 4: MetalPerformanceShadersGraph -[MPSGraphExecutable initWithMLIR:]",
        negative_examples=("MetalPerformanceShadersGraph was loaded",),
    ),
    Failure(
        id="crash-on-neural-engine",
        texts=("AppleNeuralEngine", "ANECompiler", "ANEServices"),
        pattern=r"frame \d+: (?:AppleNeuralEngine|ANECompiler|ANEServices)",
        cause="The faulting thread was in the Neural Engine's framework or compiler.",
        fix="load with CPU_AND_GPU to confirm it; split the model to find the operation",
        source=f"{COREMLTOOLS} #2758",
        confidence="anecdotal",
        is_general=True,
        example="frame 2: AppleNeuralEngine -[_ANEClient evaluateWithModel:]",
        negative_examples=("AppleNeuralEngine: ready",),
    ),
    Failure(
        id="crash-in-core-ml",
        texts=("CoreML", "Espresso", "MIL", "BNNS"),
        pattern=r"frame \d+: (?:CoreML|Espresso|MIL|MLCompilerRuntime|MLAssetIO|libBNNS)",
        cause="The faulting thread was in Core ML. On older systems predictions crashed where inputs did not"
        " fit"
        " the model or one instance was used by two threads at once.",
        fix=f"use one instance of the model per thread; check the inputs; {TRY_UNITS}",
        source=f"{COREMLTOOLS} #1526, #1576; Apple: MLModel",
        confidence="anecdotal",
        is_general=True,
        example="frame 3: CoreML -[MLModel predictionFromFeatures:error:]",
        negative_examples=("linked CoreML.framework",),
    ),
)
