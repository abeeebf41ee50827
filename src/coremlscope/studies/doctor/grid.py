"""Who wrote a line of a log, and when: components of Core ML and of what stands around it, and phases.

Each pair is a cell: what such a line means, which setting avoids it, which line to look for next and which
verb here goes further. Rows on single texts (`failures`) add to their cell.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal, get_args

import msgspec

Component = Literal[
    "Neural Engine driver",
    "Neural Engine compiler",
    "MPSGraph",
    "BNNS",
    "E5RT",
    "Espresso",
    "validator",
    "ExecuTorch",
    "ONNX Runtime",
    "coremlc",
    "converter",
    "Swift client",
]
Phase = Literal["convert", "compile", "load", "predict", "chatter"]
COMPONENTS: tuple[Component, ...] = get_args(Component)


class Cell(msgspec.Struct, frozen=True):
    """What lines of one component in one phase mean.

    Attributes:
        meaning: What happened.
        setting: The compute units that avoid it, or why none does.
        next_line: The line to look for next.
        verb: The command here that goes further.
    """

    meaning: str
    setting: str
    next_line: str
    verb: str

    @property
    def excluded(self) -> tuple[str, ...]:
        """The compute units that no row on a text of this cell may advise."""
        return _EXCLUDED.get(self.setting, ())


class Place(msgspec.Struct, frozen=True):
    """The component that wrote a line, and the phase in which it did."""

    component: Component
    phase: Phase

    @property
    def cell(self) -> Cell:
        """What such lines mean."""
        return CELLS[self.component, self.phase]

    def __str__(self) -> str:
        return f"{self.component}, {'harmless' if self.phase == 'chatter' else self.phase}"


#: The words of each component. The first that matches wrote the line: those that are called come before their
#: callers, whose texts pass theirs on.
_VOCABULARY: tuple[tuple[Component, str], ...] = (
    (
        "Neural Engine driver",
        r"createProgramInstance|process(?:Output)?Request:|ANEProgram\w+"
        r"|_ANE(?:Model|Client|Request|InMemory|Virtual|Daemon)"
        r"|Program (?:load|Inference|chaining)|load(?:ing|ed)? ANE (?:model|module)|ANE (?:model )?load"
        r"|EvaluateANERequest|ANE (?:evaluation|Batch|inference)|do(?:Unl|L)oadModel:"
        r"|Must re-compile the E5 bundle"
        r"|ANEHW\w+|\bH1\dANE",
    ),
    (
        "Neural Engine compiler",
        r"ANECCompile|_?ANECompiler|\bANECF?\b|\bZin[A-Z]\w+|anecir|ANEC[A-Z]\w+|MILCompilerForANE"
        r"|compil\w* ANE model"
        r"|\bANE (?:Error|does not|cannot|only)|(?:on|by) (?:the )?ANE\b|ANE-resident|ane: "
        r"|Kernel validation warning"
        r"|beyond limit supported|within supported range|interleave factors|resolve operation input"
        r"|no engine path"
        r"|Compiler internal error|for range shape|live input tensor|Cannot support standalone"
        r"|Unsupported MIL operation"
        r"|Only Channelwise|doesn't support Neuron",
    ),
    (
        "Neural Engine driver",
        r"appleneuralengine|\bhwx\b|\[ane\]|\baned\b|\bANEF\b|ANEServices|Neural Engine.{0,40}(?:fail|error)",
    ),
    ("BNNS", r"BNNS|bnns"),
    (
        "MPSGraph",
        r"\bMPS[A-Z]?\w*|\bMTL[A-Z]\w+|\bMetal|GPU::|IOGPU|\bIOAF\b|\bAGX|command buffer|\bmps\.\w+|mpsgraph"
        r"|(?:New|old) volume|GPU (?:work|address)|LLVM ERROR|infer result type|MLIR pass|\.metallib"
        r"|failed assertion|input types 'tensor<"
        r"|XPC_ERROR_CONN|MPS backend",
    ),
    (
        "validator",
        r"validator error|protobuf spec|must be either MultiArray<|inputs can only be of size|neural networks"
        r" must have|Layer '[^']{1,200}' of type|Description of (?:multiarray|image) feature"
        r"|specification version"
        r"|Unsupported layer type|model-parameter type|must have dimension 1",
    ),
    (
        "Espresso",
        r"espresso|plan build|building plan|\b\w+_kernel(?:_cpu|_gpu)?:|NN outputs|dynamically resizing"
        r"|adding network"
        r"|declaring network|Invalid blob shape|Invalid data blob|neural network model",
    ),
    (
        "E5RT",
        r"E5RT(?!\.)|\bios\d\d\.[a-z]|\bE5 (?:bundle|function|program|buffer)|prediction using ML Program"
        r"|sentinel in blob"
        r"|MIL->EIR|MIL program (?:has|input)|FlexibleShapeInformation|\bMLE5\w+|e5bundle|tensor_buffer"
        r"|execution plan|Async task|Submit Async|PropagateInputTensorShapes|type inference for ios",
    ),
    (
        "ExecuTorch",
        r"executorch|ETCoreML|CoreMLBackend|\.pte\b|CoreMLPartitioner|\bexir\b|to_edge|backend delegate",
    ),
    (
        "ONNX Runtime",
        r"onnxruntime|CoreMLExecutionProvider|ONNXRuntimeError|CoreML EP|(?-i:_?Ort[A-Z]\w+)"
        r"|CoreML Execution Provider|provider name|CoreML does not support|op_builder|_CoreML_\d",
    ),
    (
        "converter",
        r"convert function|palettiz|ct\.convert|coremltools|converters?/|Unsupported ONNX|torch\.jit"
        r"|TorchScript"
        r"|_MLModelProxy|libcoreml|libmil|libmodelpackage|BlobWriter|BlobReader|Running MIL"
        r"|(?:PyTorch|Torch) (?:op|version)"
        r"|TensorFlow|scikit-learn version|Tuple detected|converting|conversion|\bOp \""
        r"|(?:Value|NotImplemented|Assertion|Type|Key"
        r"|Attribute|Index|ModuleNotFound|Import)Error:|only be (?:called"
        r"|run) on macOS|supported on macOS|run predict\(\)|just from the model spec|CoreML\.framework"
        r"|exceeds maximum protobuf|Layer \"|Invalid rank",
    ),
    (
        "coremlc",
        r"coremlc(?:ompiler)?\b|compiling model|compiler error:|compiler version|compileModel"
        r"|parse ML Program|parsing MIL"
        r"|model specification|in operation \S+:|Unknown opset|deserialize object|encryption"
        r"|Fractional upsample|major version",
    ),
    (
        "Swift client",
        r"com\.apple\.(?:CoreML|vis)"
        r"|\bML(?:Model|MultiArray|Feature|Predict|State|Compute|Dictionary|Array|Image)\w*"
        r"|\bVN[A-Z]\w+|Core ?ML|\[coreml\]|\bVision\b|CVPixelBuffer|mlmodelc|mlpackage|\bfeature\b"
        r"|outputBackings|\.swift\b"
        r"|NSLocalizedDescription|Image is not|Shape \(|\.functionName|MultiArray|valid manifest"
        r"|A sequence of length|inputSchema",
    ),
)
_HARMLESS = (
    r"nil _ANEModel|is disabled through|Tuple detected|home directory|Cache Miss"
    r"|not supported\. Minimum required|doUnloadModel|not been tested|scikit-learn version|\bis deprecated"
    r"|DeprecationWarning"
    r"|FutureWarning"
    r"|number of partitions|Running MIL|\[[VI]:onnxruntime|symbol lookup|os_unfair"
    r"|Metal API Validation Enabled"
    r"|falling back|Unknown aneSubType|Could not find image named|will be (?:slower|ignored)|fell back"
)
_LOAD = (
    r"compute.device|valid input feature|\bload|initWith|open (?:file|stream)|Input stream|manifest"
    r"|registered|re-compile the E5 bundle"
    r"|serializ|package"
    r"|createProgram|plan\b|\bURL|no such file|not (?:be )?found|couldn.t be opened|not a valid"
    r"|network -?\d|mmap|deserial"
    r"|FlexibleShapeInformation|provider|session|instantiat"
)
_PREDICT = (
    r"predict|inferen[ct]|evaluat|execut(?:e|ing)\b|comput(?:e|ing)\b|ProcessRequest|processRequest|binding"
    r"|[Ss]ubmit|timed"
    r" ?out|timeout|Async task|running|resizing|encode\w*Op|command buffer|dispatch|volume|required but not"
    r"|not match|outputs"
    r"|input feature|sequence"
)
_COMPILE = r"compil|MIL->EIR|translat|pass manager|lower|unbounded|parse|parsing"
#: For each component: the phases of its lines, in the order in which their words are looked for; the last one
#: has none.
_PHASES: Mapping[Component, tuple[tuple[Phase, str], ...]] = {
    "Neural Engine driver": (("predict", _PREDICT), ("load", "")),
    "Neural Engine compiler": (("compile", ""),),
    "BNNS": (("compile", r"Graph ?Compile|compil"), ("predict", "")),
    "MPSGraph": (
        (
            "load",
            r"load|serializ|initWithM(?:PSGraph|LIR)|package|verification|legalize|infer result|compil"
            r"|pass manager|resources\.bin",
        ),
        ("predict", ""),
    ),
    "validator": (("compile", r"compil"), ("load", "")),
    "Espresso": (
        ("compile", r"compil|saving network"),
        ("load", r"plan build|building plan|declaring|adding network|\bload"),
        ("predict", ""),
    ),
    "E5RT": (
        ("compile", r"MIL->EIR|compil|unbounded|type inference"),
        ("load", _LOAD),
        ("predict", _PREDICT),
        ("load", ""),
    ),
    "ExecuTorch": (
        ("convert", r"partition|to_edge|lower|export|exir"),
        ("load", r"\bload|registered|init|compil|asset|cache"),
        ("predict", ""),
    ),
    "ONNX Runtime": (("predict", r"running|execut(?:e|ing) |Non-zero status|runtime shape"), ("load", "")),
    "converter": (
        (
            "load",
            r"run predict|just from the model spec|CoreML\.framework|exceeds maximum|_MLModelProxy"
            r"|libcoreml|libmil|libmodelpackage|Blob(?:Reader|Writer)|on macOS",
        ),
        ("convert", ""),
    ),
    "coremlc": (("compile", ""),),
    "Swift client": (
        ("compile", r"compil"),
        ("predict", r"predictions?From|not match|required but not|evaluat|VNCoreMLTransform"),
        ("load", _LOAD + r"|functionName|structureLoad|lazyInit|decrypt|CoreML Code=[89]\b"),
        ("predict", ""),
    ),
}

_PLAN = "`coremlscope plan MODEL --device NAME` names what each unit rejects"
_DOCTOR = "`coremlscope doctor MODEL` checks the file"
_INSPECT = "`coremlscope inspect MODEL` lists inputs, outputs and shapes"
_VERIFY = "`coremlscope verify MODEL` compares values"
_OFF_ENGINE = "CPU_AND_GPU or CPU_ONLY keep everything off the Neural Engine"
_OFF_GPU = "CPU_AND_NE or CPU_ONLY keep everything off the GPU"
_UNREAD = "none while the file cannot be read"
_OFF_CPU = "CPU_AND_GPU or CPU_AND_NE move most of it off the CPU"
_NONE = "none: every setting reads the same file"

#: Units that do not avoid what happened, by the setting that does.
_EXCLUDED: Mapping[str, tuple[str, ...]] = {
    _OFF_ENGINE: ("CPU_AND_NE",),
    _OFF_GPU: ("CPU_AND_GPU",),
    _NONE: ("CPU_AND_NE", "CPU_AND_GPU", "CPU_ONLY"),
}

CELLS: Mapping[tuple[Component, Phase], Cell] = {
    ("converter", "convert"): Cell(
        "The converter does not take the network: nothing was written.",
        "none: no unit is involved yet",
        "the last frame in coremltools, and the operation that it names",
        "`coremlscope convert` says which operation stops it",
    ),
    ("converter", "load"): Cell(
        "coremltools has the model and cannot load it here: its native modules are absent, or Core ML"
        " refused it.",
        _NONE,
        "the exception that the warning passes on",
        "`coremlscope run SCRIPT` supplies the runtime off a Mac; " + _DOCTOR,
    ),
    ("converter", "chatter"): Cell(
        "The converter names versions that were not tested together, or its progress.",
        "none is needed",
        "",
        "",
    ),
    ("coremlc", "compile"): Cell(
        "Core ML's compiler of models refuses the file, before any unit is chosen.",
        _NONE,
        "the text behind `validator error:` or `compiler error:`",
        _DOCTOR,
    ),
    ("coremlc", "chatter"): Cell(
        "The compiler of models remarks on a model that it takes.", "none is needed", "", ""
    ),
    ("validator", "compile"): Cell(
        "The specification breaks a rule of Core ML's validator, which the text names.",
        _NONE,
        "the text behind `validator error:`",
        _DOCTOR,
    ),
    ("validator", "load"): Cell(
        "The specification breaks a rule of Core ML's validator, which the text names, or cannot be read at"
        " all.",
        _NONE,
        "the text behind `validator error:`",
        _DOCTOR,
    ),
    ("Espresso", "compile"): Cell(
        "The engine of neural networks finds a layer or shape that it cannot take.",
        _NONE,
        "the layer that it names",
        _DOCTOR,
    ),
    ("Espresso", "load"): Cell(
        "The engine of neural networks could not build its plan; the reason is in the lines before it.",
        "try CPU_ONLY: other units have narrower forms of layers",
        "ANECCompile, `Invalid blob shape` or a kernel's name above it",
        _PLAN,
    ),
    ("Espresso", "predict"): Cell(
        "A kernel of the engine of neural networks got a shape that does not fit, mostly another size or"
        " length than"
        " the network was converted for.",
        "CPU_ONLY shows whether a unit or the shape is the cause",
        "the kernel and the shapes that it names",
        _INSPECT,
    ),
    ("Espresso", "chatter"): Cell(
        "The engine of neural networks tries another form or unit.", "none is needed", "", ""
    ),
    ("BNNS", "compile"): Cell(
        "The CPU's graph compiler does not take a function; Core ML then runs it with its other routines.",
        _OFF_CPU,
        "whether the load goes on",
        _DOCTOR,
    ),
    ("BNNS", "predict"): Cell(
        "A routine of the CPU failed or ended the app.",
        _OFF_CPU,
        "the operation's number, and the frames above it",
        _PLAN,
    ),
    ("E5RT", "compile"): Cell(
        "The runtime of ML Programs could not translate the program for its units.",
        "CPU_ONLY shows whether one unit is the cause",
        "`at …model.mil:LINE:COLUMN`, which names the operation",
        _DOCTOR,
    ),
    ("E5RT", "load"): Cell(
        "The runtime of ML Programs could not build its execution plan, or did so with a reservation.",
        "load with CPU_ONLY, CPU_AND_GPU and CPU_AND_NE in turn: the one that fails names the unit",
        "ANECCompile, MPSGraph or BNNS before it",
        _DOCTOR,
    ),
    ("E5RT", "predict"): Cell(
        "An operation of an ML Program failed, or did not end in time, while it ran.",
        "predict with CPU_ONLY to see whether a unit is the cause",
        "the unit's own line before it",
        _PLAN,
    ),
    ("E5RT", "chatter"): Cell(
        "The runtime of ML Programs tries another shape or backend.", "none is needed", "", ""
    ),
    ("MPSGraph", "load"): Cell(
        "The GPU's compiler of graphs could not prepare the program.",
        _OFF_GPU,
        "the first assertion or MLIR error above it",
        _PLAN,
    ),
    ("MPSGraph", "predict"): Cell(
        "The GPU's graph failed, or ended the app, over an operation while it ran.",
        _OFF_GPU,
        "the name of the operation or handler in the assertion",
        _PLAN,
    ),
    ("MPSGraph", "chatter"): Cell(
        "The GPU's libraries name a mode or a file that they look for.", "none is needed", "", ""
    ),
    ("Neural Engine compiler", "compile"): Cell(
        "The Neural Engine's compiler does not take an operation, or the whole program, which then runs on"
        " other units"
        " or fails to load.",
        _OFF_ENGINE,
        "the operation or limit named before `ANECCompile() FAILED`",
        _PLAN,
    ),
    ("Neural Engine compiler", "chatter"): Cell(
        "The Neural Engine's compiler gave up a part that another unit takes.", _OFF_ENGINE, "", _PLAN
    ),
    ("Neural Engine driver", "load"): Cell(
        "The Neural Engine's program was compiled and does not load: it is too large, the cache of it is"
        " stale, or its"
        " memory is taken.",
        _OFF_ENGINE,
        "ANECCompile before it, and the code of `Program load failure`",
        "`coremlscope estimate MODEL` says what it needs; " + _PLAN,
    ),
    ("Neural Engine driver", "predict"): Cell(
        "The Neural Engine broke off a prediction; the meaning of its codes is not published.",
        _OFF_ENGINE,
        "`overflow`, `timeout` or a status code in the same line",
        _PLAN + "; " + _VERIFY,
    ),
    ("Neural Engine driver", "chatter"): Cell(
        "Core ML unloads, or asks about, a program that the Neural Engine does not hold: harmless by itself.",
        "none is needed",
        "a failed compilation before it",
        "",
    ),
    ("ExecuTorch", "convert"): Cell(
        "ExecuTorch's partitioner keeps an operation from Core ML, or could not lower it.",
        "none: no unit is involved yet",
        "the operation that it names",
        _PLAN,
    ),
    ("ExecuTorch", "load"): Cell(
        "ExecuTorch could not hand the program to Core ML: the backend is not linked, or Core ML refused"
        " the model in it.",
        "the compute unit is fixed in the compile specs: lower again with CPU_ONLY to see whether a unit is"
        " the cause",
        "Core ML's own error below it",
        "`coremlscope doctor MODEL.pte` checks the models in it",
    ),
    ("ExecuTorch", "predict"): Cell(
        "A part that ExecuTorch gave to Core ML failed while it ran.",
        "lower again with CPU_ONLY to see whether a unit is the cause",
        "Core ML's own error below it",
        "`coremlscope doctor MODEL.pte` checks the models in it",
    ),
    ("ExecuTorch", "chatter"): Cell("ExecuTorch says what it does.", "none is needed", "", ""),
    ("ONNX Runtime", "load"): Cell(
        "ONNX Runtime's Core ML provider is absent, or does not take an operation, which then runs on its"
        " CPU.",
        "ModelFormat=MLProgram takes more operations than NeuralNetwork",
        "the reason in the line of the operation's builder (log level verbose)",
        "`coremlscope plan MODEL.onnx` shows its partitions",
    ),
    ("ONNX Runtime", "predict"): Cell(
        "A partition that ONNX Runtime gave to Core ML failed while it ran.",
        "MLComputeUnits=CPUOnly shows whether a unit is the cause; RequireStaticInputShapes keeps dynamic"
        " parts out",
        "Core ML's own error behind `Error executing model`",
        "`coremlscope plan MODEL.onnx` shows its partitions",
    ),
    ("ONNX Runtime", "chatter"): Cell(
        "ONNX Runtime says which operations and how many partitions Core ML gets: no error.",
        "none is needed",
        "",
        "`coremlscope import LOG --model MODEL.onnx` compares them with the rules",
    ),
    ("Swift client", "compile"): Cell(
        "The app compiles a model on the device, which the compiler refuses.",
        _UNREAD,
        "the underlying error",
        _DOCTOR,
    ),
    ("Swift client", "load"): Cell(
        "The app could not load a model: the URL names nothing that can be read, or the underlying error"
        " says why.",
        _UNREAD,
        "the underlying error, and whether the file is in the app's bundle",
        _DOCTOR,
    ),
    ("Swift client", "predict"): Cell(
        "The app's values do not fit the model's inputs, or the prediction failed for the reason below it.",
        "CPU_ONLY shows whether a unit is the cause",
        "the underlying error, or the feature that it names",
        _INSPECT,
    ),
    ("Swift client", "chatter"): Cell("Core ML says what it does.", "none is needed", "", ""),
    ("BNNS", "chatter"): Cell("The CPU's routines say what they do.", "none is needed", "", ""),
    ("validator", "chatter"): Cell(
        "The validator remarks on a model that it takes.", "none is needed", "", ""
    ),
}

#: An underlying error without words, whose domain and code say neither phase nor cause.
_WORDLESS = re.compile(
    r'NS(Multiple)?UnderlyingErrors?(Key)?\b|(0x\w+ )?\{?Error Domain=\S+ Code=-?\d+ \\?"\(null\)\\?"'
)
_WORDS = tuple((component, re.compile(pattern, re.IGNORECASE)) for component, pattern in _VOCABULARY)
_COMPILED_HARMLESS = re.compile(_HARMLESS, re.IGNORECASE)
_COMPILED_PHASES = {
    component: tuple((phase, re.compile(words, re.IGNORECASE)) for phase, words in phases)
    for component, phases in _PHASES.items()
}


def locate(text: str) -> Place | None:
    """Returns who wrote a line and when, by its words; None for a line of nobody here, or without any."""
    if not re.search(r"\w", _WORDLESS.sub("", text)):
        return None
    component = next((component for component, words in _WORDS if words.search(text)), None)
    if component is None:
        return None
    if _COMPILED_HARMLESS.search(text):
        return Place(component, "chatter")
    phases = _COMPILED_PHASES[component]
    return Place(component, next(phase for phase, words in phases if words.search(text)))
