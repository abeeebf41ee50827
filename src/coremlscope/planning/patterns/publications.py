"""Short names of the sources of rules, so that each source is cited the same way everywhere."""

from __future__ import annotations

#: Plans of single operations, alone and between convolutions.
M4_PLANS = "751K/Apple-Neural-Engine-Microarchitecture-Study-M6: plans on M4, macOS 27.0.1"
#: Shares of units in the plans of five networks, and one of them operation by operation.
M4_PRO_PLANS = "erwinzhang7/coreml-compute-placement: plans on M4 Pro, macOS 26.5.1"
#: Units of a vocoder by type of operation.
A15_PLANS = "orukahairuka/coreml-audio-research: plans on A15, iOS 18"
#: Shares of cost of encoders by operation and unit.
M4_MAX_PLANS = "AirRunner/laya-apple: plans on M4 Max, macOS 26.6.2"
#: The plan of one network with the messages of all backends.
M1_PLAN = "freedomtan/coreml_modelc_profling: plan of MobilenetEdgeTPU on M1, macOS 14.5"
#: Plans of networks for depth, operation by operation, without messages.
DEPTH_PLANS = "jvcleave/DepthStudies: plans of three networks on M1 Max, macOS 27.0"
GUIDE_OPS = "sbryngelson/ane-guide, appendix A: operations by device"
GUIDE_LIMITS = "sbryngelson/ane-guide, chapters 4 and 17: limits found by compiling"
GUIDE_PITFALLS = "sbryngelson/ane-guide, chapter 19: pitfalls"
GUIDE_GATES = "sbryngelson/ane-guide, chapter 24: parameters in the compiler"
COMPILER_TEXTS = "published lists of the compiler's own messages"
MOBIUS = "FluidInference/mobius: conversion reports"
FLUID_AUDIO = "FluidInference/FluidAudio: notes on models"
#: Reports on fused attention, with programs that show each defect.
GEMMA_CHAT = "kasper0406/gemma-coreml-chat and kasper0406/stablehlo-coreml pull request 89"
ANEMLL = "Anemll: profiler and conversion notes"
ANE_BOOK = "videlalvaro/ane-book: journal of conversions"
COREML_LLM = "john-rocky/CoreML-LLM: conversion notes"
HOLLANCE = "hollance/neural-engine: layers that do not run (2019–2021)"
APPLE_MODELS = "apple/coreai-models: rules for the Neural Engine"
APPLE_TRANSFORMERS = "apple/ml-ane-transformers and Apple's article on transformers on the Neural Engine"
APPLE_LLAMA = "Apple's article on Llama 3.1 with Core ML (2024)"
APPLE_FAQ = "apple/coremltools: FAQ"
APPLE_KERNELS = "apple/coremltools: issue answered by Apple"
APPLE_QUANTIZATION = "apple/coremltools: guide to compression"
APPLE_SIZES = "apple/coremltools: guide to model utilities; apple/ml-stable-diffusion"
APPLE_LOADING = "apple/coremltools: guide to prediction"
#: Rules for authoring, in the skills of the repository.
APPLE_CORE_AI_GUIDE = "apple/coreai-models: model-authoring, rules for the Neural Engine and the GPU"
COREAI_GUIDE = "Apple's forum, thread 831967: answer of an Apple engineer"
COREAI_ZOO = "john-rocky/coreai-model-zoo: compute units and authoring"
COREAI_ZOO_PARTITIONS = "john-rocky/coreai-model-zoo: cost of partitions"
COREAI_ZOO_REGIONS = "john-rocky/coreai-model-zoo: regions and fp32 operations"
ULTRALYTICS_COREAI = "ultralytics/ultralytics pull request 25926"
RESAMPLE = (
    "apple/coremltools issues 1875 (macOS 13.4: neither GPU nor Neural Engine) and 2299 (macOS 14: it runs)"
)
POSE_TIMES = (
    "tucan9389/PoseEstimation-CoreML: an hourglass network with 105 thresholds takes 29 ms on an A11, whose"
    " Neural Engine Core ML does not use, 6 ms on an A12 and 3 ms on an A13"
)
