"""Failures of memory and disks."""

from __future__ import annotations

from coremlscope.planning.hazards.lines.failure import CLEAR_CACHE, COREMLTOOLS, Failure

_SMALLER = "compress the weights, load stages one after another, and release models that are not in use"

MEMORY: tuple[Failure, ...] = (
    Failure(
        id="killed",
        texts=("killed: 9", "sigkill", "137"),
        pattern=r"Killed: 9|\bSIGKILL\b"
        r"|exit(?:ed)?(?: with)?(?: code| status)?:? 137\b|returncode=?:? ?137\b",
        cause="The system ended the process, mostly because memory ran out. It was also seen at the first"
        " prediction after the Neural Engine's compiler had failed.",
        fix="look for ANECCompile above it; load with CPU_AND_GPU; use a smaller or more compressed model",
        source=f"{COREMLTOOLS} #2758",
        confidence="anecdotal",
        examples=("python: exited with code 137",),
        negative_examples=("row 137 of 200", "1.137 s"),
    ),
    Failure(
        id="memory-limit",
        texts=(
            "resource_type_memory",
            "exc_resource",
            "per-process-limit",
            "due to memory",
            "too much memory",
        ),
        pattern=r"RESOURCE_TYPE_MEMORY|EXC_RESOURCE.{0,80}memory|per-process-limit"
        r"|terminated due to memory (?:issue|error|pressure)|because it is using too much memory",
        cause="The app exceeded the memory that the system allows it. Loading for the Neural Engine may take"
        " several times the size of the weights.",
        fix=f"{_SMALLER}; request the entitlement for more memory; `coremlscope estimate MODEL` says what it"
        f" needs",
        source="Apple: Understanding the exception types in a crash report; apple/ml-stable-diffusion #22,"
        " #49",
        confidence="documented",
        examples=(
            "EXC_RESOURCE -> App[1234] RESOURCE_TYPE_MEMORY (high watermark memory limit exceeded)",
            "Message from debugger: Terminated due to memory issue",
            "The app “A” has been killed by the operating system because it is using too much memory.",
        ),
        negative_examples=("EXC_RESOURCE (wakeups)",),
    ),
    Failure(
        id="memory-of-the-device",
        texts=("vm-pageshortage", "vm-compressor", "highwater", "jetsam"),
        pattern=r"JetsamEvent .{0,200}(?:vm-pageshortage|vm-compressor|highwater)"
        r"|ended .{1,200}: (?:vm-pageshortage|vm-compressor|highwater)"
        r"|(?:killed|terminated|ended) by jetsam|jetsam.{0,40}(?:killed|terminated)",
        cause="The device ran out of memory, and the system ended processes that it could do without.",
        fix=_SMALLER,
        source="Apple: Identifying high-memory use with jetsam event reports",
        confidence="documented",
        examples=("JetsamEvent vm-pageshortage",),
        negative_examples=("vm-pageshortage statistics", "the highwater mark is 3"),
    ),
    Failure(
        id="allocation-failed",
        texts=(
            "failed to allocate",
            "memory allocation error",
            "can't allocate region",
            "bad_alloc",
            "unable to mmap",
            "erroroutofmemory",
            "mps backend out of memory",
            "insufficient memory",
            "cannot create heap",
        ),
        pattern=r"Failed to allocate (?:memory )?(?P<what>IOSurface|E5 buffer) object"
        r"|Memory allocation error \d+: (?P<size>\d+ bytes)|can't allocate region"
        r"|mach_vm_map\(size=(?P<mapped>\d+)|std::bad_alloc|Unable to mmap file"
        r"|kIOGPUCommandBufferCallbackErrorOutOfMemory|MPS backend out of memory|^insufficient memory \("
        r"|exception=Cannot create heap: (?P<heap>\d+)",
        cause="Memory for weights or results could not be had: the model is too large for the device or for"
        " the app's address space, or buffers of earlier predictions were never released (then it begins"
        " after many predictions, and for inputs of any size). Virtual Macs allow about 1 GB on the GPU.",
        fix=f"{_SMALLER}; wrap predictions in autoreleasepool; request the entitlements for more memory and"
        " extended virtual addressing",
        source="Ma-Dan/Yolact-CoreML #2; totalslacker/switchcraft #87; ggml-org/whisper.cpp #2456;"
        " cardona/SwiftMistralCoreML #15; actions/runner-images #9918; lengstrom/fast-style-transfer #226",
        confidence="anecdotal",
        examples=(
            "E5RT: Failed to allocate memory IOSurface object. (3)",
            'Espresso exception: "Memory error": Memory allocation error 12: 1448370000 bytes status=-4',
            "MIL->EIR translation error at /a/model.mil:14:12: Unable to mmap file /a/weights/weight.bin",
            "[Espresso::handle_ex_plan] exception=Cannot create heap: 67108864",
            "RuntimeError: MPS backend out of memory (MPS allocated: 1.02 GB)",
        ),
        negative_examples=("failed to allocate a seat", "memory: 3.2 GB used of 8 GB"),
    ),
    Failure(
        id="fork",
        texts=("when fork() was called",),
        pattern=r"may have been in progress in another thread when fork\(\) was called",
        cause="Core ML was used in a child that was started by fork, which Apple's runtime does not allow.",
        fix='use multiprocessing with the start method "spawn", or a subprocess',
        source=f"{COREMLTOOLS} #963, #1819",
        confidence="anecdotal",
        examples=(
            "objc[88]: +[NSNumber initialize] may have been in progress in another thread when fork() was"
            " called.",
        ),
        negative_examples=("fork() was called",),
    ),
    Failure(
        id="disk-full",
        texts=("failed to create a working directory appropriate for url", "no space left on device"),
        cause="The disk is full, sometimes by the Neural Engine's cache in /Library/Caches/com.apple.aned,"
        " which ordinary programs cannot see.",
        fix="free disk space and restart the Mac; leave several times the model's size free",
        source=f"{COREMLTOOLS} #2549",
        confidence="anecdotal",
        examples=("Failed to create a working directory appropriate for URL: file:///tmp/a.mlmodelc",),
        negative_examples=("created a working directory",),
    ),
    Failure(
        id="half-written-cache",
        texts=("resources.bin missing at", "manifest.plist", "initwithmpsgraphpackageaturl"),
        pattern=r"resources\.bin missing at|manifest\.plist.{0,3} couldn.t be opened"
        r"|^frame \d+: \S{1,80} .{0,60}initWithMPSGraphPackageAtURL",
        cause="An entry of Core ML's cache for the GPU cannot be read. Mostly it is incomplete, because the"
        " disk was full or the process was killed while it was written; betas of macOS failed there as well.",
        fix=f"free disk space; {CLEAR_CACHE}; if it comes back, load with CPU_AND_NE",
        source=f"{COREMLTOOLS} #2507; saurabhav88/EnviousWispr #2585; argmaxinc/argmax-oss-swift #264",
        confidence="anecdotal",
        examples=(
            "Error: resources.bin missing at"
            " file:///Users/a/Library/Caches/python/main.mpsgraphpackage/resources.bin",
            "frame 6: MetalPerformanceShadersGraph -[MPSGraphExecutable initWithMPSGraphPackageAtURL:]",
        ),
        negative_examples=("wrote manifest.plist",),
    ),
)
