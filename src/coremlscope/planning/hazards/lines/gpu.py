"""Failures of the GPU and MPSGraph."""

from __future__ import annotations

from coremlscope.planning.hazards.lines.failure import COREMLTOOLS, Failure

_OTHER_UNITS = "load with CPU_AND_NE or CPU_ONLY"

GPU: tuple[Failure, ...] = (
    Failure(
        id="gpu-feature-missing",
        texts=(
            "unhandled platform for mpsgraph serialization",
            "the minimum deployment target for macos is 14.0.0",
            "zero metal services found",
            "not supported on this device",
            "biases were not found",
        ),
        pattern=r"unhandled platform for MPSGraph serialization|minimum deployment target for macOS is"
        r" 14\.0\.0|Zero Metal services found|failed assertion .{0,200}not supported on this device"
        r"|has_biases is true, but biases were not found",
        cause="The GPU cannot run the program here. Known: simulators, virtual and Intel Macs, old GPUs and"
        " Mac Catalyst apps, for which MPSGraph cannot store what it compiled.",
        fix=f"{_OTHER_UNITS} there; build a Mac Catalyst app as a macOS app, or run the iPad app as it is;"
        " try another device; update macOS",
        source=f"mallman/CoreMLaMa #6; imxieyi/waifu2x-ios #84; {COREMLTOOLS} #2273, #1375;"
        " ZachNagengast/similarity-search-kit #20, #26; ml-explore/mlx-swift PR 47",
        confidence="anecdotal",
        examples=(
            "unhandled platform for MPSGraph serialization",
            " +[MTLIOAccelDevice registerDevices]: Zero Metal services found",
            "failed assertion `Dispatch Threads with Non-Uniform Threadgroup Size is not supported on this"
            " device'",
            'Espresso exception: "Invalid state": inner product kernel p.has_biases is true, but biases were'
            " not found!",
        ),
        negative_examples=(
            "the minimum deployment target for macOS is 13",
            "Haptics are not supported on this device",
        ),
    ),
    Failure(
        id="gpu-timeout",
        texts=("gpu timeout error", "gpu hang error", "callbackerrortimeout", "callbackerrorhang"),
        cause="One piece of GPU work took longer than the system allows or did not end, mostly on an old or"
        " throttled device.",
        fix=f"use smaller inputs, or {_OTHER_UNITS}",
        source="s1ddok/HED-CoreML #1",
        confidence="anecdotal",
        examples=(
            "Execution of the command buffer was aborted due to an error during execution. Caused GPU Timeout"
            " Error (IOAF code 2)",
        ),
        negative_examples=("GPU time: 3 ms",),
    ),
    Failure(
        id="gpu-in-background",
        texts=("to submit gpu work from background", "backgroundexecutionnotpermitted"),
        cause="iOS does not let an app use the GPU while it is in the background; the prediction fails, and"
        " some frameworks end the app.",
        fix=f"{_OTHER_UNITS} for work in the background, or wait until the app is active; from iOS 26 on a"
        " BGContinuedProcessingTask may ask for the GPU",
        source="argmaxinc/argmax-oss-swift #194; mlalma/kokoro-ios #18",
        confidence="documented",
        examples=("Insufficient Permission (to submit GPU work from background) (IOAF code 6)",),
        negative_examples=("the window moved to the background",),
    ),
    Failure(
        id="metal-compiler",
        texts=("xpc_error_connection_in",),
        pattern=r"[Cc]ompil(?:er|ation) .{0,60}XPC_ERROR_CONNECTION_IN(?:TERRUPTED|VALID)",
        cause="The service of the system that compiles kernels for the GPU crashed or could not be reached,"
        " as from a process that was forked, from one without a login session or from an older Metal.",
        fix=f"load the model after a fork, not before it, in a process of its own; update the system; or"
        f" {_OTHER_UNITS}",
        source="apetersson/immich_ml_balancer #1; middlefeng/NuoModelViewer #3, PR 6",
        confidence="anecdotal",
        examples=(
            "MTLCompiler: Compilation failed with XPC_ERROR_CONNECTION_INTERRUPTED on 3 try",
            "(null) Compiler encountered XPC_ERROR_CONNECTION_INVALID (is the OS shutting down?)",
        ),
        negative_examples=("XPC_ERROR_CONNECTION_INVALID from the helper of an app",),
    ),
    Failure(
        id="metal-limit",
        texts=("greater than the maximum allowed", " > 2**"),
        pattern=r"MPS\w{1,60} .{0,80}Error: (?P<measure>total bytes of NDArray|product of dimension sizes) >"
        r" (?P<most>2\*\*\d+)|MTL\w{1,60} has (?P<what>\w{1,40}) \((?P<extent>\d+)\) greater than the"
        r" maximum allowed size of (?P<limit>\d+)",
        cause="A tensor is larger than the GPU's textures or arrays may be, along an axis or in all.",
        fix=f"use smaller inputs or shorter sequences, or {_OTHER_UNITS}",
        source=f"{COREMLTOOLS} #142, #283; pytorch/pytorch #84039, #143859",
        confidence="anecdotal",
        examples=(
            "MTLTextureDescriptor has arrayLength (2400) greater than the maximum allowed size of 2048.",
            "MPSNDArray.mm:724: failed assertion `[MPSNDArray initWithDevice:descriptor:] Error: total bytes"
            " of NDArray > 2**32'",
        ),
        negative_examples=("the file is greater than the maximum allowed size of 10 MB",),
    ),
)
