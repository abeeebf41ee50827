"""Failures of predictions, of memory and of caches."""

from __future__ import annotations

from coremlscope.doctor.failures.failure import CLEAR_CACHE, COREMLTOOLS, PUBLIC_NOTES, TRY_UNITS, Failure

__all__ = ["RUNNING"]

RUNNING: tuple[Failure, ...] = (
    Failure(
        id="neural-network-run",
        texts=("Error computing NN outputs", "Failure in -executePlan"),
        cause="A neural network failed while it ran: an input of the wrong shape, too little memory, or a"
        " layer"
        " that the chosen unit runs wrongly.",
        fix="repeat it with CPU_ONLY; check input shapes with `coremlscope inspect MODEL`",
        source=f"{COREMLTOOLS}: FAQ; apple/ml-stable-diffusion #96",
        confidence="documented",
        example="[coreml] Error computing NN outputs -1",
        negative_examples=("computing NN outputs took 3 ms",),
    ),
    Failure(
        id="espresso-exception",
        texts=("Espresso::handle_ex",),
        pattern=r"\[?Espresso::handle_ex\w*\]? exception=",
        cause="Core ML's engine of neural networks reports an error; the text after `exception=` is the"
        " reason.",
        fix=f"{TRY_UNITS}; convert the model to an ML Program",
        source=f"{COREMLTOOLS} #1106, #1548",
        confidence="anecdotal",
        example="[Espresso::handle_ex_plan] exception=ANECF error: failed to load ANE model",
        negative_examples=("Espresso::net",),
    ),
    Failure(
        id="input-shape",
        texts=("does not match the shape", "not compatible with the model", "must be of rank"),
        pattern=r"MultiArray shape .{0,80} does not match the shape|not compatible with the model's feature"
        r"|feature '.{0,80}' must be of rank \d+",
        cause="An input has another shape or rank than the model declares.",
        fix="`coremlscope inspect MODEL` lists the inputs with their shapes and ranges",
        source=PUBLIC_NOTES,
        confidence="measured",
        example="MultiArray shape (1 x 236) does not match the shape (1 x 256) specified in the model"
        " description",
        negative_examples=("the key does not match the shape of a key",),
    ),
    Failure(
        id="prediction-failed",
        texts=("prediction using ML Program",),
        pattern=r"Unable to compute the (?:asynchronous )?prediction using ML Program",
        cause="An ML Program failed while it ran; the underlying error follows or stands in the system log.",
        fix=f"{TRY_UNITS}; compare input shapes with `coremlscope inspect MODEL`",
        source=PUBLIC_NOTES,
        confidence="anecdotal",
        is_general=True,
        example='"Unable to compute the asynchronous prediction using ML Program. It can be an invalid input'
        " data or"
        ' broken/unsupported model."',
        negative_examples=("a prediction using ML Program took 3 ms",),
    ),
    Failure(
        id="killed",
        texts=("Killed: 9", "SIGKILL", "137"),
        pattern=r"Killed: 9|\bSIGKILL\b"
        r"|exit(?:ed)?(?: with)?(?: code| status)?:? 137\b|returncode=?:? ?137\b",
        cause="The system ended the process, mostly because memory ran out. It was also seen at the first"
        " prediction after the Neural Engine's compiler had failed.",
        fix="look for ANECCompile above it; load with CPU_AND_GPU; use a smaller or more compressed model",
        source=f"{COREMLTOOLS} #2758",
        confidence="anecdotal",
        example="python: exited with code 137",
        negative_examples=("row 137 of 200", "1.137 s"),
    ),
    Failure(
        id="memory-limit",
        texts=("RESOURCE_TYPE_MEMORY", "EXC_RESOURCE", "per-process-limit"),
        pattern=r"RESOURCE_TYPE_MEMORY|EXC_RESOURCE.{0,80}(?i:memory)|per-process-limit",
        cause="The app exceeded the memory that the system allows it.",
        fix="compress the weights, load stages one after another, or request the entitlement for more memory",
        source="Apple: Understanding the exception types in a crash report",
        confidence="documented",
        example="EXC_RESOURCE -> App[1234] RESOURCE_TYPE_MEMORY (high watermark memory limit exceeded)",
        negative_examples=("EXC_RESOURCE (wakeups)",),
    ),
    Failure(
        id="memory-of-the-device",
        texts=("vm-pageshortage", "vm-compressor", "highwater"),
        pattern=r"JetsamEvent .{0,200}(?:vm-pageshortage|vm-compressor|highwater)"
        r"|ended .{1,200}: (?:vm-pageshortage|vm-compressor|highwater)",
        cause="The device ran out of memory, and the system ended processes that it could do without.",
        fix="compress the weights, load stages one after another, and release models in the background",
        source="Apple: Identifying high-memory use with jetsam event reports",
        confidence="documented",
        example="JetsamEvent vm-pageshortage",
        negative_examples=("vm-pageshortage statistics", "the highwater mark is 3"),
    ),
    Failure(
        id="fork",
        texts=("when fork() was called",),
        pattern=r"may have been in progress in another thread when fork\(\) was called",
        cause="Core ML was used in a child that was started by fork, which Apple's runtime does not allow.",
        fix='use multiprocessing with the start method "spawn", or a subprocess',
        source=f"{COREMLTOOLS} #963, #1819",
        confidence="anecdotal",
        example="objc[88]: +[NSNumber initialize] may have been in progress in another thread when fork()"
        " was called.",
        negative_examples=("fork() was called",),
    ),
    Failure(
        id="disk-full",
        texts=("Failed to create a working directory appropriate for URL", "No space left on device"),
        cause="The disk is full, sometimes by the Neural Engine's cache in /Library/Caches/com.apple.aned,"
        " which"
        " ordinary programs cannot see.",
        fix="free disk space and restart the Mac; leave several times the model's size free",
        source=f"{COREMLTOOLS} #2549",
        confidence="anecdotal",
        example="Failed to create a working directory appropriate for URL: file:///tmp/a.mlmodelc",
        negative_examples=("created a working directory",),
    ),
    Failure(
        id="half-written-cache",
        texts=("resources.bin missing at", "manifest.plist"),
        pattern=r"resources\.bin missing at|manifest\.plist.{0,3} couldn.t be opened",
        cause="An entry of Core ML's cache is incomplete, because the disk was full or the process was killed"
        " while it was written.",
        fix=f"free disk space; {CLEAR_CACHE}",
        source=f"{COREMLTOOLS} #2507; saurabhav88/EnviousWispr #2585",
        confidence="anecdotal",
        example="Error: resources.bin missing at"
        " file:///Users/a/Library/Caches/python/main.mpsgraphpackage/resources.bin",
        negative_examples=("wrote manifest.plist",),
    ),
)
