// Written by tools/make_types.py from the data classes of the Python package; do not edit.
// Times are seconds, sizes are bytes, columns have one entry for each row of the op table.

export type Bound = "activations" | "compute" | "dispatch" | "switches" | "weights";

export type Certainty = "likely" | "unclear" | "unknown";

export type ChangeVerdict = "faster" | "no change" | "slower" | "unclear" | "unknown";

export type ColumnQuantity = "bytes" | "count" | "milliseconds" | "number" | "seconds" | "share" | "text";

export type ComputeUnit = "cpu" | "gpu" | "neural_engine";

export type ComputeUnits = "all" | "cpu_and_gpu" | "cpu_and_ne" | "cpu_only";

export type Confidence = "anecdotal" | "by analogy" | "documented" | "measured" | "static analysis";

export type Effect = "advises" | "confirms" | "corrupts" | "crashes" | "fails" | "hangs" | "rejects" | "runs";

export type EstimateBasis = "calibrated" | "extrapolated";

export type GenerationPhase = "decode" | "prefill";

export type HazardKind = "crash" | "endless load" | "refused" | "silent fallback" | "wrong values";

export type HazardPhase = "load" | "predict";

export type Hypothesis = "doubt" | "moved" | "without" | "without all";

export type Lane = "activity" | "compute" | "data";

export type Origin = "declared" | "estimated" | "measured" | "planned";

export type Precision = "fp16" | "fp32";

export type Presence = "added" | "both" | "removed";

export type Scope = "device" | "processes";

export type Severity = "error" | "info" | "warning";

export type Status = "folded" | "fused" | "inside" | "not run" | "timed" | "unattributed";

export type SystemPart = "cpu" | "gpu" | "memory" | "neural_engine" | "system";

export type Undecided = "rates" | "tie" | "unpublished";

export type ViewKind = "boxes" | "classes" | "curve" | "image" | "map" | "mask" | "points" | "text" | "values";

/** A part of a unit's intervals: those with one label, or of one process. */
export interface ActivityPart {
  /** The label, or the process with its id: `python3 (4711)`. */
  name: string;
  /** How many there are. */
  intervals: number;
  /** Time that at least one of them covers, in seconds. */
  busy_s: number;
}

/** The agreement of the plan by rules with Core ML's, under one setting, on the operations of the file. */
export interface Agreement {
  /** Index of Core ML's plan among the plans of the profile. */
  theirs: number;
  /** Index of the plan by rules. */
  ours: number;
  /** The setting. */
  compute_units: ComputeUnits;
  /** Number of operations that both plans place on a unit. */
  compared: number;
  /** Number of them that both place on the same unit. */
  agreed: number;
  /** Number of operations that Core ML places and no rule covers; they are not compared. */
  unknown: number;
  /** `agreed / compared`; null if nothing can be compared. */
  share: number | null;
  /** The same, weighted by planned cost; null if costs are unknown. */
  cost_share: number | null;
  /** Whose costs are the weights: `Core ML`, or `rules` where it gives none; empty if neither gives costs. */
  weighted_by: "" | "Core ML" | "rules";
  /** The operations on different units and the unknown ones, in program order. */
  disagreements: Disagreement[];
  /**
   * Number of compared operations that may run on another unit as well by our evidence: ties of equal cost, and those that depend on rates
   * within their intervals.
   */
  undecided: number;
  /** The share of the others that both plans place on the same unit; null if there are none. */
  decided_share: number | null;
}

/** What a user wants to know first of a model on a device under a setting. */
export interface Answer {
  /** The path of the model. */
  model: string;
  /** The device. */
  device: string;
  /** The chip's id. */
  chip: string;
  /** Its system. */
  os: string;
  /** The setting. */
  compute_units: ComputeUnits;
  /** Whether the setting was asked for: only then changes of the model are planned again. */
  is_asked: boolean;
  /** The answer in a sentence: hazards first, then the speed, one doubt, and the first change. */
  headline: string;
  /** Estimated seconds of a prediction, with an 80 % interval; null where nothing is estimated. */
  latency: Figure | null;
  /** Whether the latency leaves something out, and is a lower bound. */
  is_at_least: boolean;
  /** Whether fewer than three publications measured this chip. */
  is_extrapolated: boolean;
  /** The share of each unit in the time of the kernels. */
  units: Partial<Record<ComputeUnit, number>>;
  /** The speed of a language model; null for other models. */
  tokens: TokenSpeed | null;
  /** Times of the first and later loads; null where they are not known. */
  load: LoadEstimate | null;
  /** The fastest setting without a hazard; null where nothing is estimated, or not enough is known. */
  best: SettingChoice | null;
  /** Where the time goes; the shares add up to 1. */
  time: TimePart[];
  /** Why operations are not on the Neural Engine, by the time that each reason holds. */
  why: HeldTime[];
  /** What to change, the largest gain first; never empty where a latency is known. */
  changes: Proposal[];
  /** Whether a prediction as planned meets a hazard. */
  is_hazardous: boolean;
  /** What is known to go wrong, the gravest first. */
  hazards: Hazard[];
  /** How far to believe it. */
  trust: AnswerTrust;
}

/** How far an answer is to be believed. */
export interface AnswerTrust {
  /** The worst of the doubts; `likely` without any. */
  certainty: Certainty;
  /** What makes it doubtful, the worst first. */
  doubts: string[];
  /** How good estimates of the nearest published networks are, in a sentence; may be empty. */
  accuracy: string;
  /** Published latencies of the same network on the same chip. */
  published: PublishedFigure[];
}

/** The memory at which a system ends an app, without the entitlement for more. */
export interface AppLimit {
  /** The device. */
  device: string;
  /**
   * The bytes, as somebody measured them on this device, or on one with as much memory; 0 in the table where only the memory is published.
   */
  limit_bytes: number;
  /** Bytes of the device's memory; 0 if the source does not say. */
  memory_bytes: number;
  /** The system on which it was measured; empty if the source does not say. */
  os: string;
  /** Who published it, and how it was measured. */
  source: string;
  /** Where. */
  url: string;
}

/** The change of a figure between two subjects. */
export interface Change {
  /** The figure of the base, in the unit that the owner states; null if it has none. */
  before: number | null;
  /** The figure of the other subject. */
  after: number | null;
  /** `after` divided by `before`; null if they cannot be compared. */
  ratio: number | null;
  /** Lower end of the ratio's interval; null if there are too few samples. */
  low: number | null;
  /** Upper end of the interval. */
  high: number | null;
  /** The conclusion. */
  verdict: ChangeVerdict;
  /** The origin of both figures; figures of different origins are never compared. */
  origin: Origin;
}

/** Where operations go under one setting. */
export interface ChoiceColumns {
  /** Per operation: its backend, by its place in `backends`; -1 if no unit is known to support it. */
  backend: number[];
  /** Per operation: its share in the cost of its graph as reported by Core ML; empty if it follows from the costs. */
  weight: number[];
  /**
   * For each unit, per operation: the additional cost of the cheapest plan that runs it there; null if it already runs there or cannot run
   * there.
   */
  detour_ms: Partial<Record<ComputeUnit, (number | null)[]>>;
  /**
   * For each unit, per operation: why it may run there as well although another unit was chosen; null where the evidence decides. Units
   * without such operations are omitted.
   */
  alternatives: Partial<Record<ComputeUnit, (Undecided | null)[]>>;
}

/** The number of classes of a classifier, and the first few. */
export interface ClassLabels {
  count: number;
  first: (string | number)[];
}

/** Two or more subjects, each compared with the first. */
export interface Comparison {
  /** The compared subjects; the first is the base. */
  subjects: Subject[];
  /** The differences of each other subject from the base. */
  differences: Difference[];
  /** The profile of each model, saved or made for this, also of those that failed. */
  profiles: Profile[];
  /** That of the first failure, or 130 after Ctrl-C. */
  exit_code: number;
}

/** Conditions of a machine that can change while a model is measured; empty where it does not report them. */
export interface Conditions {
  /** `low power`, `normal` or `high power`. */
  power_mode: string;
  /** `AC Power` or `Battery Power`, as macOS names them. */
  power_source: string;
  /**
   * The level of thermal pressure, `nominal` without any, in the system's words: macOS says `nominal`, `moderate`, `heavy`, `trapping` or
   * `sleeping`; programs read `nominal`, `fair`, `serious` or `critical`.
   */
  thermal_state: string;
}

/** The differences between the base and one other subject. */
export interface Difference {
  /** Index of the base among the subjects. */
  base: number;
  /** Index of the other. */
  other: number;
  /** true if predictions of both were timed in interleaved rounds. */
  interleaved: boolean;
  /** Labels of the two compared measurements with setting and power mode, where they have one; empty if either subject has none. */
  measured: string[];
  /** Why the measured times are not compared; empty if they are. */
  incomparable: string;
  /** Compile, load and predict, in seconds. */
  phases: Record<string, Change>;
  /** Times by kind of group, largest difference first. */
  kinds: KindChange[];
  /** Times by operation, largest difference first. */
  rows: RowChange[];
  /** Number of operations with a counterpart. */
  matched: number;
  /** Number of matched operations with another name. */
  renamed: number;
  /** Ids of operations of the other without a counterpart. */
  added: string[];
  /** Ids of operations of the base without a counterpart. */
  removed: string[];
  /** The number of operations of each type in the base and in the other, where they differ. */
  types: Record<string, [number, number]>;
  /**
   * What Apple's compiler did to the operations, if the other subject is compiled and the base is not: `26 batch_norm folded into conv`.
   * Empty for ML Programs with different metadata, which are different versions of a model.
   */
  compiled: string[];
  /** Changes of plans and estimates for devices, which are not measured. */
  plans: PlanChange[];
  /** What the answers of both say by device and setting, each under its own best setting first. */
  estimated: PairVerdict[];
  /** These in a sentence; empty where nothing is estimated. */
  answer: string;
  /** The work that a Core ML and a Core AI model have in common; null for models of one framework. */
  work: SharedWork | null;
  /** How their values agree; null if they were not compared. */
  agreement: OutputAgreement | null;
}

/** An operation that the two plans run on different units. */
export interface Disagreement {
  /** Its id. */
  op: string;
  /** Apple's name of the operation. */
  type: string;
  /** The author's name. */
  name: string;
  /** Its unit by rules; null if no rule covers it on any unit. */
  ours: ComputeUnit | null;
  /** Its unit by Core ML. */
  theirs: ComputeUnit;
  /** Our reasons against Core ML's unit; empty if the rules allow it there. */
  why: string[];
  /** Core ML's own messages about our unit; empty if it gives none. */
  message: string;
  /** Its share of the planned cost of all compared operations; null if costs are unknown. */
  share: number | null;
  /** Why our evidence does not decide against Core ML's unit; null where it does. */
  undecided: Undecided | null;
}

/** Why a measurement ended before everything was measured. */
export interface EarlyEnd {
  /**
   * `interrupted`: the user ended it. `limit`: it reached a limit of time or memory. `failed`: the runtime failed, crashed or was killed.
   */
  cause: "failed" | "interrupted" | "limit";
  /** The phase that was being repeated: `compile`, `first load`, `load`, `warm-up`, `predict`, `operations`. */
  phase: string;
  /** What happened, as a sentence without its full stop. */
  text: string;
}

/** Energy over a window of time, by counters of the system: of everything that ran, not of a process. */
export interface Energy {
  /** What read the counters: `powermetrics`, `macmon`. */
  tool: string;
  /** The length of the window in seconds; null if unknown. */
  window_s: number | null;
  /** Readings in the window. */
  samples: number;
  /** Energy by unit. Units that are absent are unknown, such as one whose counter stayed at 0. */
  units: UnitEnergy[];
  /** Predictions made in the window; null if unknown. */
  predictions: number | null;
  /** Levels of thermal pressure that were reported, in order of occurrence. */
  thermal: string[];
  origin: Origin;
}

/** The estimated time of a prediction on a device under one setting. Nothing was measured. */
export interface Estimate {
  /** The device, or its chip. */
  device: string;
  /** The chip's id. */
  chip: string;
  /** The system. */
  os: string;
  /** The assumed setting. */
  compute_units: ComputeUnits;
  /** Seconds, with an 80 % interval. */
  latency: Figure;
  /** Whether the model was fitted to latencies of this chip and unit. */
  basis: EstimateBasis;
  /** The bottleneck: the part that takes most of the time. */
  bound: Bound;
  /** Seconds of each part. */
  parts: Partial<Record<Bound, number>>;
  /** The share of each unit in the time of the kernels, as the plan places them. */
  placement: Partial<Record<ComputeUnit, number>>;
  /** How often the plan changes the unit. */
  switches: number;
  /**
   * What the estimate does not include, because nothing is known about it: stages of a pipeline, and the number of operations that cannot
   * be estimated. The latency is then a bound.
   */
  left_out: string[];
  /** The share of the parameters that these operations read, as far as it is known. Where it is above 0.2, nothing is estimated. */
  left_out_share: number;
  /** Remarks that explain the estimate. */
  notes: string[];
  /**
   * The terms of each unit in use; with the conversion of inputs and outputs, which `dispatch` includes, and with the changes of the unit
   * they add up to the latency. Empty in older profiles.
   */
  terms: UnitTerms[];
  /** Which of the user's own measurements it uses; null if it uses published ones alone. */
  own: OwnCalibration | null;
  /** Times of loading, where the Neural Engine does most of the work; null where they are not known. */
  load: LoadEstimate | null;
  /** The memory of a prediction, from the file; null in older profiles. */
  memory: MemoryEstimate | null;
  /** Published latencies of similar networks on similar chips, nearest first; empty unless asked for. */
  near: NearRow[];
  /** The kernels, where the plan divides some of the profile's or orders them otherwise; empty where they are the profile's. */
  kernels: Kernel[];
  /** The profile's kernel that each is, or is a part of; -1 for operations that leave no work. Empty where each is its own. */
  kernel_of: number[];
  /** Seconds of each kernel in a prediction, in all iterations of a loop. */
  kernel_s: number[];
  /** The unit of each kernel, an index into `units`. */
  kernel_unit: number[];
  /** The bottleneck of each kernel. */
  kernel_bound: Bound[];
  /** The compute units that columns refer to. */
  units: ComputeUnit[];
}

/** A kind of event. */
export interface EventKind {
  /** Its name: `predict`. */
  name: string;
  /** The lane that shows it. */
  lane: Lane;
  /** One sentence that explains it. */
  doc: string;
}

/** Events in the order of their start; every column has one element for each event. */
export interface Events {
  /** Nanoseconds from the start of the trace. */
  start_ns: string;
  /** Nanoseconds. */
  duration_ns: string;
  /** Position in `EVENT_KINDS`. */
  kind: string;
  /** Position in `Trace.models`; −1 for none. */
  model: string;
  /** Position in `Trace.processes`. */
  process: string;
  /** Position in `Trace.threads`. */
  thread: string;
  /** Position in `Trace.tasks`, of asyncio; −1 outside tasks. */
  task: string;
  /** Position in `Trace.sites`: the line of the program that made the call; −1 if unknown. */
  site: string;
  /** Position in `Trace.details`; −1 for none. */
  detail: string;
  /** Bytes that were converted, or of the inputs of a prediction; 0 if unknown. */
  bytes: string;
  /** The address of the first input's memory, which shows slices of one array; 0 if unknown. */
  address: string;
  /** Bits: `FAILED` and others. */
  flags: string;
  /** How many recorded events of the same thread enclose it. */
  depth: string;
}

/** An input, output or state. */
export interface FeatureSummary {
  name: string;
  /** The readable type: `float16 1×3×224×224`. */
  type: string;
  /** The default tensor shape; null for other types. */
  shape: number[] | null;
  /** The allowed shapes in readable form; empty for a fixed shape. */
  flexibility: string;
  is_optional: boolean;
  doc: string;
  /** The preprocessing of pixels in the program, for image inputs. */
  preprocessing: string;
}

/** A value with an interval and an origin. */
export interface Figure {
  /** The value, in the SI unit given by the name of the field that holds the figure. */
  value: number;
  /** Lower bound of the interval (80 % for estimates); equal to `value` if there is no interval. */
  low: number;
  /** Upper bound of the interval. */
  high: number;
  /** `measured` on this host, `planned` by Core ML's cost model, `estimated` by the latency model, or `declared` by the file. */
  origin: Origin;
}

/** One remark about a model or a measurement. */
export interface Finding {
  /** A stable identifier in kebab case, for filters and CI. */
  id: string;
  /** `info`, `warning`, or `error` for a part of the work that failed. */
  severity: Severity;
  /** One sentence for the user. */
  text: string;
  /** A suggested action; may be empty. */
  hint: string;
  /** The ids of the affected operations; may be empty. */
  ops: string[];
  /** The exit code of the error, where the severity is `error`. */
  exit_code: number;
  /** How the rule of a finding on the model is known; empty for other findings. */
  confidence: Confidence | "";
  /** Who published it. */
  source: string;
  /** What the model costs less without it, by device and setting where it saves anything. */
  savings: Saving[];
  /** How much smaller its files are without it. */
  saved_bytes: number;
  /** The transform of `what-if` that applies the suggested action; empty if there is none. */
  transform: string;
}

/** Ranges of results in a prediction rounded to fp16, one entry for each row of the op table. */
export interface Fp16Ranges {
  /**
   * The largest finite magnitude of the fp16 results before rounding; the largest fp16 number is 65504. This column and the counts are null
   * for operations without fp16 results and for operations that only move elements.
   */
  largest: (number | null)[];
  /** Finite elements that rounding made infinite. */
  overflows: (number | null)[];
  /** Elements that were infinite before rounding. */
  infinities: (number | null)[];
  /** Elements that were not a number. */
  nans: (number | null)[];
}

/** Samples in one function of a unit's software, on one thread. */
export interface FrameSamples {
  /** The innermost function of the stack that is the unit's software. */
  function: string;
  /** The thread's name; empty if unknown. */
  thread: string;
  /** How many there are. */
  samples: number;
}

/** The planned cost of one function under one setting. */
export interface FunctionCost {
  /** Cost of the cheapest path, including launches and switches. */
  total_ms: number;
  /** Number of changes of the unit along the path. */
  switches: number;
  /**
   * The share of each unit in the estimated time of a prediction, without launches, changes of unit and conversions; `Estimate.placement`
   * is their sum over the functions of a prediction. Empty where nothing is estimated.
   */
  time_shares: Partial<Record<ComputeUnit, number>>;
}

/** One function of a model. */
export interface FunctionSummary {
  name: string;
  inputs: FeatureSummary[];
  outputs: FeatureSummary[];
  states: FeatureSummary[];
  predicted_feature: string;
  predicted_probabilities: string;
  /** Apple's name of its operation set; empty if the model is not a program. */
  opset: string;
  /** The first version of iOS that supports that set. */
  opset_os: string;
  /** Number of operations of each type, most frequent first, without constants, with nested ones. */
  ops: Record<string, number>;
  /** Number of constants. */
  constants: number;
  /** Number of results of operations of each element type. */
  compute: Record<string, number>;
  /** The declared work; null if the model is not a program. */
  work: WorkSummary | null;
  /** The same at the largest sizes of flexible inputs; null for fixed and unbounded ones. */
  largest_work: WorkSummary | null;
  /** Number of layers of each type in a neural network, most frequent first. */
  layers: Record<string, number>;
}

/** An input of the prediction. */
export interface GivenInput {
  /** Its name. */
  name: string;
  /** Its type, as `inspect` writes it. */
  type: string;
  /** The file, `typed`, or `synthetic` for generated values. */
  source: string;
  /** What was done with it: how it was resized or resampled. */
  note: string;
}

/** Operations and engine nodes whose time was measured together; it is never split among them. */
export interface Group {
  /** The types of its operations, or of the nodes where the engine added them. */
  label: string;
  /** The operations, as rows of the op table in program order; empty if the engine added the nodes. */
  ops: number[];
  /** Median time per prediction, from the profiled runs. */
  wall_s: number;
  /** Its share of the sum over all groups; null if the profiler slows predictions so much that it decides the shares. */
  share: number | null;
  /** Name and operator of each engine node. */
  engine_nodes: [string, string][];
  /** Lower end of the median's confidence interval (99.5 %); null if there are too few runs. */
  low_s: number | null;
  /** Upper end of the interval. */
  high_s: number | null;
  /** The stage of a pipeline that it belongs to; empty for other models. */
  stage: string;
}

/** A known hazard that a model meets. */
export interface Hazard {
  /** The row's id, in kebab case; that of the placement rule where one has it. */
  id: string;
  /** What happens. */
  kind: HazardKind;
  /** When. */
  phase: HazardPhase;
  /** What happens and where in the model, one clause without a full stop. */
  text: string;
  /** What to do. */
  fix: string;
  /** Who published it. */
  source: string;
  /** How the source knows. */
  confidence: Confidence;
  /** Where it happens; empty where it does not depend on the unit. */
  units: ComputeUnit[];
  /** The chips and systems for which it holds, in words; empty for all. */
  scope: string;
  /** The operations concerned: names by id; empty for the whole model. */
  ops: Record<string, string>;
  /** false where the evidence does not decide whether the plan puts one of the operations on one of the units. */
  is_certain: boolean;
}

/** A reason why operations are not on a faster unit, and the time that it holds. */
export interface HeldTime {
  /** The reason. */
  text: string;
  /** The unit that it keeps them from. */
  unit: ComputeUnit;
  /** The id of the rule. */
  rule: string;
  /** How many operations it concerns. */
  ops: number;
  /** The share of the time that their kernels take where they are. */
  share: number;
  /** The id of one of them. */
  example: string;
  /** What a prediction takes less without the reason; null where that was not planned again. */
  saved_s: Figure | null;
}

/** An operation that Core ML adds to those in the file. */
export interface InsertedOp {
  /** Its id: `main/input`. */
  id: string;
  /** Apple's name of the operation. */
  type: string;
  /** The function that it belongs to, as in the op table. */
  function: string;
  /** Types of its results. */
  outputs: string[];
  /** Names of its results. */
  output_names: string[];
}

/** Operations that a device is assumed to run as one. */
export interface Kernel {
  /** The author's name of the operation that does most of the work. */
  name: string;
  /** Its kind: `conv`, `linear`, `elementwise`, …; empty in older profiles. */
  kind: string;
  /** The operations, as rows of the op table. */
  ops: number[];
}

/** The measured time of all operations that the engine ran in one kind of group. */
export interface KindChange {
  /** The types of the operations of a group: `conv + relu`. */
  label: string;
  /** Number of groups in the base. */
  before: number;
  /** Number of groups in the other. */
  after: number;
  /** The sum of their times, in seconds. */
  time: Change;
}

/** An operator that stays with another provider. */
export interface LeftNode {
  /** The author's name, or that of its first result. */
  name: string;
  /** Its type. */
  op: string;
  /** The rule that keeps it out. */
  rule: string;
  /** Why, as a clause. */
  reason: string;
  /** What to change. */
  fix: string;
  /** The file of microsoft/onnxruntime. */
  source: string;
}

/** A class of a mask. */
export interface LegendRow {
  /** The name of the class, or its number. */
  label: string;
  /** Its colour, `#rrggbb`. */
  color: string;
  /** The share of the pixels, from 0 to 1. */
  share: number;
}

/** Estimated times of loading on a Neural Engine, from published ones and the number of parameters. */
export interface LoadEstimate {
  /** Seconds of the first load, in which Core ML compiles for the Neural Engine, with an 80 % interval. */
  first_s: Figure;
  /** Seconds of a later load, which finds the result in Core ML's cache. */
  cached_s: Figure;
  /** Number of publications. */
  publications: number;
}

/** An operator of which ONNX Runtime itself told whether the provider takes it. */
export interface LoggedNode {
  /** Its type. */
  op: string;
  /** Its name; may be empty. */
  name: string;
  /** Whether the provider takes it. */
  is_taken: boolean;
  /** Why not, in ONNX Runtime's words; empty if it did not say. */
  reason: string;
}

/** A machine that ran the model or made the profile. */
export interface Machine {
  /** The name of the processor, as reported by the system. */
  processor: string;
  /** Available physical cores; null if unknown. */
  cores: number | null;
  /** The operating system with its version. */
  os: string;
  /** Python's version; empty if Python was not involved. */
  python: string;
  /** On a Mac, `low power`, `normal` or `high power`, as a measurement began; empty if the system does not report it. */
  power_mode: string;
}

/** Measured times of a model. */
export interface Measurement {
  /** The source of the times: `ONNX Runtime 1.22 on AMD EPYC`, `Core ML on M2, macOS 15.1`. */
  label: string;
  /** The runtime that compiled, loaded and ran the model. */
  runtime: Runtime;
  /** The machine that ran the model. */
  machine: Machine;
  /** The requested settings. */
  settings: Settings;
  /** The setting of compute units in effect; empty if the runtime has none. */
  compute_units: string;
  /** Threads per operation; null if unknown. */
  threads: number | null;
  /** Compilation, cold each time; null if it was not measured. */
  compile: Phase | null;
  /**
   * The first load after the last compilation, in which Core ML compiles for the device; null if it was not measured, or is like the
   * others.
   */
  first_load: Phase | null;
  /** Loading of the compiled model; null if it was not measured. */
  load: Phase | null;
  /** A prediction, from tensors to tensors; null if it was not measured. */
  predict: Phase | null;
  /**
   * Other ways to predict, by name: `output backings`, `async, 2 in flight`. They were measured after the other phases, in processes of
   * their own, by Core ML through pyobjc.
   */
  other_predictions: Record<string, Phase>;
  /** Times of operations, in order of execution; empty if the source has none. */
  groups: Group[];
  /** The status of every operation, one entry for each row of the op table; empty if the source has no operation times. */
  status: Status[];
  /**
   * Index into `groups` for each row of the op table, -1 for none; empty if the source has no operation times. An operation inside a loop
   * has the group of the loop.
   */
  group: number[];
  /** The relation between the times of groups and of predictions; null if there are no groups. */
  nodes: NodeTiming | null;
  /** Times of each model of a pipeline, those of nested pipelines included. */
  stages: StageTiming[];
  /** Ranges of fp16 results; null if they were not requested. */
  fp16: Fp16Ranges | null;
  /** Peak resident memory of the process that ran the model; null if unknown. */
  peak_memory_bytes: number | null;
  /** The machine's conditions as the measurement began; null if they are unknown. */
  before: Conditions | null;
  /** Its conditions as the measurement ended. */
  after: Conditions | null;
  /** Busy times of compute units, where the run was recorded; null if it was not. */
  recording: Recording | null;
  /** Energy that the system reported meanwhile; null if unknown. */
  energy: Energy | null;
  /** Why it ended before everything was measured; null if it is complete. */
  partial: EarlyEnd | null;
  /** Remarks on this measurement. */
  findings: Finding[];
  /** When it ended, UTC, ISO 8601 (`2026-01-31T12:00:00Z`); empty if unknown. */
  measured_at: string;
  /** `measured`. */
  origin: Origin;
}

/** The memory of one prediction on a device, derived from the file. Nothing was measured. */
export interface MemoryEstimate {
  /** Bytes of the weights as the file stores them, which the system maps. */
  weights_bytes: number;
  /** Bytes of the weights in the type in which operations read them: more where the file stores them compressed. */
  expanded_bytes: number;
  /** The most bytes of inputs and results that are alive at the same time, by their declared types; null if a size is not known. */
  activations_bytes: number | null;
  /** The id of the operation at which that is; empty if it is not known. */
  peak_op: string;
  /** Bytes of states. */
  state_bytes: number;
  /** Bytes of the weights that the operations on each unit read, expanded. */
  weights_by_unit: Partial<Record<ComputeUnit, number>>;
  /** The most bytes that are alive while an operation runs on each unit. */
  activations_by_unit: Partial<Record<ComputeUnit, number>>;
  /**
   * Stored weights, states and live results. The ends are bounds, not an 80 % interval: without the weights, which the system maps and may
   * drop; and with weights in the type that operations read beside the stored ones, and each result twice.
   */
  peak: Figure | null;
  /** How the figures are derived. */
  basis: string;
  /** What an app may use on the device; null where no published measurement is known. */
  limit: AppLimit | null;
}

/** A mistake that a recording shows. */
export interface Mistake {
  /** A stable identifier in kebab case: `model-reloaded`. */
  id: string;
  /** `warning`, or `info` where it may be intended. */
  severity: "info" | "warning";
  /** A few words. */
  title: string;
  /** One sentence with the figures that show it. */
  evidence: string;
  /** One sentence with what to change. */
  fix: string;
  /** Position in `Trace.sites` of the line to change; −1 if unknown. */
  site: number;
  /** Position in `Trace.models`; −1 for none. */
  model: number;
  /** How many events show it. */
  events: number;
  /**
   * The time that the change would have saved in this recording, from its measured times, without what costlier mistakes already count;
   * null if the recording does not tell.
   */
  gain_s: number | null;
  /** The part of its saving that costlier mistakes already count. */
  shared_s: number;
}

/** The description of a model. */
export interface ModelSummary {
  /** The path from which it was read; empty for bytes. */
  path: string;
  /** `mlpackage`, `mlmodel`, `mlmodelc` or `aimodel`; empty if the model could not be read. */
  container: string;
  /** Apple's name of the model type: `mlProgram`, `neuralNetwork`, …; empty if the model could not be read. */
  kind: string;
  spec_version: number;
  /** The oldest systems that read it. */
  platforms: string;
  size_bytes: number;
  /** The functions, the default one first; empty if the model could not be read. */
  functions: FunctionSummary[];
  description: string;
  version: string;
  author: string;
  licence: string;
  user_defined: Record<string, string>;
  is_updatable: boolean;
  /** The models of a pipeline in order, those of nested pipelines included. */
  stages: StageSummary[];
  labels: ClassLabels | null;
  /** The parameters by storage format. */
  weights: WeightGroup[];
  /** Number of parameters. */
  parameters: number;
  /** Bytes of all parameters in the file. */
  weights_bytes: number;
  /** Names of weight files that are absent. */
  missing_weights: string[];
  /** Names of weight files that end before a weight that the program refers to. */
  short_weights: string[];
  /**
   * Pairs of label and value: other contents of the file, for classical models and models whose content is not in the file; what was
   * assumed; and why layers cannot be run.
   */
  facts: [string, string][];
  /** Why such a model cannot be run here, as the end of a sentence; empty for others. */
  absent: string;
  /** Why Core ML refuses the model, and image outputs that are black. Empty in profiles, which have their own findings. */
  findings: Finding[];
  /**
   * All operations of the default function except constants, if requested; for a pipeline those of all stages. A stage that cannot be run
   * is one row. Empty in profiles, which have their own op table.
   */
  ops: OpTable;
}

/** A published latency of a similar network on a similar chip, beside our estimate of it. */
export interface NearRow {
  /** The network and the size of its input. */
  network: string;
  /** Its family of architectures. */
  family: string;
  /** Who measured it. */
  publication: string;
  /** Where it was published; may be empty. */
  url: string;
  /** The chip's id. */
  chip: string;
  /** The compute unit that ran it. */
  unit: ComputeUnit;
  /** `fp16`, `w8`, `pal4`, `sparse75`, `w8a8`, `fp32`. */
  precision: string;
  /** The published latency, in seconds. */
  measured_s: number;
  /** Our estimate, in seconds; the row may be among those that the model was fitted to. */
  estimated_s: number;
  /** How far its structure is from that of the estimate: 0 for equal ones, 1 for ones that have little in common. */
  distance: number;
}

/** The relation between the times of groups and of predictions. All times are medians, in seconds. */
export interface NodeTiming {
  /** Number of profiled runs. */
  iterations: number;
  /** Number of profiled runs before them, which are dropped. */
  warmups: number;
  /** Time of a profiled run. */
  run_s: number;
  /** The sum over all nodes of a profiled run. */
  nodes_s: number;
  /** Time of a profiled run outside its nodes. */
  node_overhead_s: number;
  /** Time of a profiled run minus the time of a prediction. */
  profiler_overhead_s: number;
  /** Executions of nodes inside loops and branches in a run. */
  nested_executions: number;
  /**
   * Time that the profiler takes to record them, or for Core AI to record events, within `nodes_s`. It is estimated from
   * `profiler_overhead_s`, for Core AI also from the shortest event or from operations that were watched alone, and was taken off the times
   * of the groups.
   */
  recording_s: number;
  origin: Origin;
}

/** The arguments of operations; empty in profiles of older versions and where only names are known. */
export interface OpDetails {
  /** All distinct parameters of operations. */
  signatures: Signature[];
  /** The signature of each row of the op table; -1 where it is not known. */
  signature: number[];
  /**
   * What is given for each parameter of the signature. A number of 0 or more is a result, counted through all `output_names` of the op
   * table; a negative number `-1 - i` is weight `i`; a text is the name of an input of the function or of the block that contains the
   * operation.
   */
  arguments: (number | string)[][];
  /** The weights. */
  weights: WeightTable;
}

/** A column for each property of all operations except constants, nested ones included. */
export interface OpTable {
  /** Stable ids, in program order. */
  id: string[];
  /** Apple's names. */
  type: string[];
  /** The author's names. */
  name: string[];
  /** The function that contains each operation; in a pipeline with its stage: `model1/main`. */
  function: string[];
  /** Types of the results, with bound shapes. */
  outputs: string[][];
  /** Names of the results in the file; empty in profiles of older versions. */
  output_names: string[][];
  /** FLOPs; null where the operation is unknown. The same applies to the bytes. */
  flops: (number | null)[];
  read_bytes: (number | null)[];
  written_bytes: (number | null)[];
  weight_bytes: (number | null)[];
  /** false where FLOPs and bytes are lower bounds, as in a loop of unknown length. */
  work_is_complete: boolean[];
  /** In a neural network, the author's name of the layer that the operation belongs to; else null. */
  layer: (string | null)[];
  /** Apple's name of that layer's type. */
  layer_type: (string | null)[];
  /** The operations whose results it reads, as rows of this table; null in older profiles. */
  inputs: (number[] | null)[];
  /** Bytes of all tensors that are alive while it runs, by their declared types; see `describe.dataflow.Flow`. */
  live_bytes: (number | null)[];
  /** The arguments of the operations. */
  details: OpDetails;
}

/** A plan that the evidence does not tell from the one shown: too close to call. */
export interface OtherPlan {
  /** Its operations by unit. */
  units: Partial<Record<ComputeUnit, number>>;
  /** How many operations run on another unit than in the plan shown. */
  moved: number;
  /** The estimate of a prediction that follows it; null where nothing is estimated. */
  latency: Figure | null;
  /** That of the plan shown. */
  planned: Figure | null;
}

/** How the values of two models agree for the same inputs. */
export interface OutputAgreement {
  /** Their outputs, in order. */
  outputs: ValueAgreement[];
  /** Number of values with a counterpart: equal ones, or those of the same place in the network. */
  pairs: number;
  /** How many of them agree within `tolerance`. */
  equal: number;
  /** The relative error up to which values agree. */
  tolerance: number;
  /** The first value that does not agree, where an output does not either; null else. */
  first: ValueAgreement | null;
  /** What computed the values. */
  by: string;
  /** Why values were not compared; empty if they were. */
  problem: string;
}

/** How far an output of a variant is from that of the original, over all samples. */
export interface OutputDifference {
  /** The output. */
  name: string;
  /** Number of elements that were compared. */
  elements: number;
  /** true if all elements are equal. */
  is_equal: boolean;
  /** The largest difference; null for outputs without numbers. */
  max_abs: number | null;
  /** The largest magnitude in the original's output. */
  largest: number | null;
  /**
   * Ratio of the energy of the original's output to that of the difference, in decibels; null where the outputs are equal, or without
   * numbers.
   */
  snr_db: number | null;
  /** The same for the square of the largest magnitude instead of the energy per element. */
  psnr_db: number | null;
  /**
   * The share of rows whose largest element, or whose class, is the same; null where the output does not rank classes, such as sound,
   * pictures and activations.
   */
  top1: number | null;
  /** Elements that are NaN or infinite in the variant, and finite in the original. */
  not_finite: number;
}

/** One output, or several that belong together, and how they are shown. */
export interface OutputView {
  /** The names of the outputs. */
  name: string;
  /** How they are shown. */
  kind: ViewKind;
  /** What they are: `Classes`, `Boxes`, `Segmentation`, `Depth`, `Pose`, … */
  title: string;
  /** Their types, as `inspect` writes them. */
  type: string;
  /** How the numbers were read, and what is not known; empty if nothing is unusual. */
  note: string;
  /** The best classes, the best first. */
  classes: ScoredClass[];
  /** The number of all classes. */
  classes_in_all: number;
  /** The boxes, the most confident first. */
  boxes: SeenBox[];
  /** The points. */
  points: SeenPoint[];
  /** Pairs of points that are joined. */
  lines: [number, number][];
  /**
   * A picture as the address of its data (PNG); empty if there is none. A mask and a map are as large as the output, and cover the picture
   * of the input.
   */
  picture: string;
  /** The classes of a mask, the largest first. */
  legend: LegendRow[];
  /** The numbers of a row, at most 512. */
  curve: number[];
  /** The smallest number; null if it is not known. */
  low: number | null;
  /** The largest number; null if it is not known. */
  high: number | null;
  /** A text, or the first numbers. */
  text: string;
}

/** How a user's own measurements changed an estimate. */
export interface OwnCalibration {
  /** Number of measurements in use, of the chip and the units of the estimate. */
  measurements: number;
  /** Number of different models among them. */
  models: number;
  /** By unit: measured relative to estimated times, shrunk towards 1. */
  factors: Partial<Record<ComputeUnit, number>>;
}

/** The content of the page before a model is opened. */
export interface PageState {
  /** The largest model that can be sent. */
  max_upload_bytes: number;
  /** The names of the devices that answers are for. */
  devices: string[];
}

/** Whether another model, device or setting is faster than a base, and the two rows that say so. */
export interface PairVerdict {
  /** The device of the base. */
  device: string;
  /** Its system. */
  os: string;
  /** Whether each side is under its own best setting; else both are under given ones. */
  is_best: boolean;
  /** The setting of the base and its latency; null where none is known. */
  before: SettingChoice | null;
  /** Those of the other side. */
  after: SettingChoice | null;
  /** Seconds of the other side divided by those of the base, with an 80 % interval; null where one of them is not known. */
  ratio: Figure | null;
  /** Whether the other side is faster: the worst of its premises. */
  verdict: ChangeVerdict;
  /** What makes it doubtful, the worst first. */
  doubts: string[];
  /** What goes wrong on either side, before any speed. */
  hazards: string[];
  /** It in a sentence. */
  text: string;
}

/** A benchmarked phase and its samples. */
export interface Phase {
  /**
   * Seconds, in the order of measurement: by the runtime's own clock where it is called through a library that has one, else wall time
   * around the calls.
   */
  samples_s: number[];
  /** Earlier samples that were dropped. */
  warmups_s: number[];
  /** Summary statistics of `samples_s`. */
  statistics: Statistics;
  /** Wall times of the same repetitions around the calls of that library; null without it. */
  through_python: TimesThroughPython | null;
  /** What each repetition also does: `fp16 as float32`; empty for nothing. */
  remark: string;
  /** `measured`. */
  origin: Origin;
}

/** The placement of every operation on the units of a device, with planned costs and reasons. */
export interface Plan {
  /** The device, or its chip. */
  device: string;
  /** The chip's id. */
  chip: string;
  /** The system. */
  os: string;
  /** The source of the plan: `rules` (coremlscope), `Core ML` or `Core AI`. */
  planner: string;
  /** The published plans from which the costs were recovered; empty if the framework's costs are not published, as those of Core AI. */
  cost_model: string;
  /** Further remarks. */
  notes: string[];
  /** The compute units that the framework chooses from. */
  units: ComputeUnit[];
  /** The implementations that it chooses from, with the unit of each. */
  backends: Record<string, ComputeUnit>;
  /** The operations in program order, those that Core ML inserts included. */
  ops: PlanColumns;
  /** The costs of launches and changes of backend; null where they are not known. */
  transitions: Transitions | null;
  /** All settings that were planned, the requested one first. */
  settings: SettingPlan[];
  /** The operations that planned costs do not include, because nothing is known of them. */
  left_out: string;
  /** The share of the parameters that they read. Where it is above 0.2, there is no total. */
  left_out_share: number;
  /** `planned`. */
  origin: Origin;
}

/** The differences between two plans. */
export interface PlanChange {
  /** The device and the setting of the base's plan. */
  before: string;
  /** The device and the setting of the other plan. */
  after: string;
  /** The estimates, in seconds; null for kinds of models that cannot be estimated. */
  latency: Change | null;
  /** The total planned cost, including launches and switches, in seconds. */
  planned: Change;
  /** Number of changes of the unit along each path. */
  switches: [number, number];
  /** Number of operations on each unit in both plans. */
  units: Partial<Record<ComputeUnit, [number, number]>>;
  /** Costs by type of operation, largest difference first; empty if either plan has no costs. */
  types: TypeCost[];
  /** Operations that differ, largest difference first. */
  ops: PlannedOpChange[];
  /** Number of matched operations that change their unit. */
  moved: number;
  /**
   * Which of the user's own measurements the estimates of the base and of the other use; null where it is estimated from published
   * latencies alone.
   */
  own: [OwnCalibration | null, OwnCalibration | null];
  /** Number of operations in `units` that Core ML adds to those of the file, such as copies. */
  inserted: [number, number];
}

/** The operations of a plan in program order, as columns: each has one entry for each operation. */
export interface PlanColumns {
  /** Their ids, in the op table of the profile or in `inserted`. */
  id: string[];
  /** Those that Core ML adds. */
  inserted: InsertedOp[];
  /** The implementations where they go, with the unit of each. */
  backends: Record<string, ComputeUnit>;
  /** For each unit: 1 if it can run there, 0 if it cannot, -1 if no rule covers it; null where nothing is said. */
  supported: Partial<Record<ComputeUnit, (number | null)[]>>;
  /** For each backend: its planned cost; null if it cannot run there. */
  cost_ms: Record<string, (number | null)[]>;
  /** For each backend: how that cost is known, an index into `bases`; null for none. */
  cost_basis: Record<string, (number | null)[]>;
  /** The bases of costs: `recovered`, `fitted`, `assumed`, … */
  bases: string[];
  /** The distinct reasons. */
  reasons: Reason[];
  /** Indices of the reasons why it cannot run on units. This column and the next two are empty where no operation has any. */
  why: number[][];
  /** Indices of advice that would make it faster on its unit. */
  advice: number[][];
  /** Indices of rules known by anecdote only that would take it from a unit. Plans do not apply them. */
  doubts: number[][];
  /** Where they go, by setting. */
  choices: Partial<Record<ComputeUnits, ChoiceColumns>>;
}

/** An operation whose unit or planned cost changes. */
export interface PlannedOpChange {
  /** Apple's name of the operation in the base, or else in the other plan. */
  type: string;
  /** The author's name in the base, or else in the other plan. */
  name: string;
  /** Its id in the base; empty if it was added. */
  before: string;
  /** Its id in the other plan; empty if it was removed. */
  after: string;
  /** Its unit in the base; null if no unit is known to support it. */
  unit_before: ComputeUnit | null;
  /** Its unit in the other plan. */
  unit_after: ComputeUnit | null;
  /** Its planned cost, in seconds. */
  planned: Change;
}

/** One prediction, as it is shown to a person. */
export interface Preview {
  /** What was given to the model. */
  inputs: GivenInput[];
  /** What it made of it. */
  outputs: OutputView[];
  /** The picture that the model got, as the address of its data (PNG); empty if it takes none. */
  picture: string;
  /** Its width and height in pixels; zeros if there is none. */
  picture_size: [number, number];
  /** Who ran the model: `ONNX Runtime 1.31.1 on Apple M1`. */
  measured_by: string;
  /** Seconds of the predictions, without loading; the last ones where there are several. */
  predict_s: number[];
  /** Seconds to compile, load and predict for the first time. */
  load_s: number;
}

/** A model with its measurements, plans and estimates, each of which may be empty. */
export interface Profile {
  /** The description of the model. */
  model: ModelSummary;
  /** The operations to which measurements, plans and estimates refer. */
  ops: OpTable;
  /** When, where and by which version this profile was made. */
  made: Provenance;
  /** Measured times. */
  measurements: Measurement[];
  /** The placement of every operation on devices. */
  plans: Plan[];
  /** Operations that devices are assumed to run as one, in order of execution; estimates refer to them. */
  kernels: Kernel[];
  /** Estimated times of a prediction, by device and setting; the requested setting of a device is first. */
  estimates: Estimate[];
  /** For a language model, estimated tokens per second by device, setting and phase. */
  rates: TokenRate[];
  /** For a language model, measured tokens per second by setting, phase and context. */
  token_timings: TokenTiming[];
  /** How far the plans by rules agree with those by Core ML, where both are present. */
  agreements: Agreement[];
  /** Remarks that do not belong to a measurement. */
  findings: Finding[];
  /** What a user wants to know first of each device and setting, the asked ones of a device first. */
  answers: Answer[];
  /** For an ONNX model, how ONNX Runtime's Core ML provider divides it, by format. */
  providers: ProviderReport[];
  /** Whether that is faster than ONNX Runtime's CPU provider, by device. */
  provider_verdicts: ProviderVerdict[];
  /** What ONNX Runtime wrote of its own sessions of the model. */
  provider_logs: ProviderLog[];
}

/** A change of a model, or of the app that loads it. */
export interface Proposal {
  /** Stable: `setting`, `compression`, `limit` where nothing saves time, or the rule that found it. */
  id: string;
  /** What to do, in a sentence. */
  text: string;
  /** How sure it is that it saves time. */
  certainty: Certainty;
  /** Estimated seconds before; null where no time is estimated. */
  before_s: number | null;
  /** Estimated seconds after it, with an 80 % interval; null where none is saved. */
  after: Figure | null;
  /** How much smaller the files are. */
  saved_bytes: number;
  /** Whether the changed model, or the other setting, was planned by itself. */
  is_planned_again: boolean;
  /** Whether it saves some of what another change in the list saves. */
  overlaps: boolean;
  /** The line of code to change; may be empty. */
  code: string;
  /** The command that tries or explains it; may be empty. */
  command: string;
  /** Ids of operations that it concerns. */
  ops: string[];
}

/** When, where and by which version a profile was made. */
export interface Provenance {
  /** UTC, ISO 8601: `2026-01-31T12:00:00Z`; empty in profiles of versions that did not record it. */
  at: string;
  /** The version of coremlscope. */
  version: string;
  /** The machine that coremlscope ran on; null where it was not recorded. */
  machine: Machine | null;
}

/** How a division by the rules agrees with what ONNX Runtime wrote of a session of the same model. */
export interface ProviderAgreement {
  /** The format in which both agree best. */
  format: string;
  /** The newest release whose rules agree best. */
  release: string;
  /** Number of Core ML models by the rules. */
  models: number;
  /** The rounds by the rules. */
  rounds: Round[];
  /** The agreement of each rule on each type of operator. */
  rules: RuleAgreement[];
  /** Number of operators that ONNX Runtime names and the judged graph does not have. */
  only_logged: number;
  /** Number of those that only the judged graph has. */
  only_judged: number;
}

/** The estimated time of a prediction by a session with the provider. Nothing was measured. */
export interface ProviderEstimate {
  /** The device, or its chip. */
  device: string;
  /** The system. */
  os: string;
  /** The setting of compute units, MLComputeUnits. */
  compute_units: ComputeUnits;
  /** Seconds, with an interval: the sum of the parts. */
  latency: Figure;
  /** Seconds in Core ML models. */
  inside: Figure;
  /** Seconds of calls of Core ML models, and of copies of tensors to and from them. */
  boundaries: Figure;
  /** Seconds of operators that stay with the CPU provider. */
  outside: Figure;
  /** The share of each unit in the time of the Core ML models. */
  placement: Partial<Record<ComputeUnit, number>>;
}

/** What a session would have after a fix, if nothing else kept its operators out. */
export interface ProviderFix {
  /** What to change. */
  fix: string;
  /** Number of operators that it is for. */
  count: number;
  /** Number of Core ML models then: the partitions of all rounds. */
  models: number;
  /** Number of operators in them. */
  supported: number;
  /** Estimated times then, by device and setting; empty where they were not planned again. */
  estimates: ProviderEstimate[];
}

/** What ONNX Runtime wrote of a session: its log, its profile, or the assignment of operators. */
export interface ProviderLog {
  /** The name of the file. */
  file: string;
  /** The number of the session in the file, from 1. */
  session: number;
  /** The lines with counts, in order. */
  rounds: Round[];
  /** The operators of the first round that lists them, or of the whole assignment. */
  nodes: LoggedNode[];
  /** Number of operators at last, by provider; a Core ML model is one operator. */
  placed: Record<string, number>;
  /** Number of runs that were profiled. */
  runs: number;
  /** Seconds of operators in a run, by provider: the mean over all runs. */
  seconds: Record<string, number>;
  /** The releases that write such a line, the first and the last; empty if it does not tell. */
  releases: string[];
  /** The agreement with the rules; null without the model. */
  agreement: ProviderAgreement | null;
}

/** How the provider divides a model in one format. */
export interface ProviderReport {
  /** `neuralnetwork` or `mlprogram`. */
  format: string;
  /** The release of ONNX Runtime. */
  release: string;
  /** Whether the format is the provider's own default. */
  is_default: boolean;
  /** Which graph was judged. */
  basis: string;
  /** Number of partitions in the first round. */
  partitions: number;
  /** Number of operators in the first round. */
  nodes: number;
  /** Number of operators in partitions of the first round. */
  supported: number;
  /** Number of Core ML models: the partitions of all rounds. */
  models: number;
  /** Number of operators in partitions of all rounds, those that others are expanded into included. */
  inside: number;
  /** Number of operators that are in no partition after all rounds. */
  outside: number;
  /** All rounds, those of bodies first, as in the log. */
  rounds: Round[];
  /** The operators outside, in order. */
  left: LeftNode[];
  /** What is known to go wrong. */
  hazards: Hazard[];
  /** What else is known, as sentences. */
  notes: string[];
  /** What follows from each fix, the one that leaves the fewest Core ML models first. */
  fixes: ProviderFix[];
  /** Estimated times, by device and setting. */
  estimates: ProviderEstimate[];
}

/** Whether the provider is faster than ONNX Runtime's CPU provider on a device, by estimates. */
export interface ProviderVerdict {
  /** The device, or its chip. */
  device: string;
  /** The system. */
  os: string;
  /** What is faster; `close` where the ratio is between 0.67 and 1.5. */
  outcome: "close" | "cpu" | "provider" | "unknown";
  /** The format in which the provider is fastest; empty where it takes nothing. */
  format: string;
  /** The setting under which it is. */
  compute_units: string;
  /** Seconds of a prediction with the provider; null where it takes nothing. */
  provider: Figure | null;
  /** Seconds of a prediction with the CPU provider alone. */
  cpu: Figure | null;
  /** Those of the CPU provider by those of the provider. */
  ratio: number | null;
  /** Seconds of a prediction by the whole model, converted by coremltools, under the best setting; null where it is not estimated. */
  converted: Figure | null;
}

/** A latency that others published of the same network, on the same chip under the same setting. */
export interface PublishedFigure {
  /** The network. */
  network: string;
  /** The latency. */
  seconds: number;
  /** The unit that ran it. */
  unit: ComputeUnit;
  /** Who measured it. */
  publication: string;
  /** Where; may be empty. */
  url: string;
  /** The system as published; may be empty. */
  os: string;
  /** Whether it says more than the estimate: its system is at most two years from the device's. */
  is_believed: boolean;
  /** Whether the interval of the estimate holds it. */
  is_within: boolean;
}

/** Why an operation does not run on a unit, or what would make it faster there. */
export interface Reason {
  /** The unit. */
  unit: ComputeUnit;
  /** The rule's id. */
  rule: string;
  /** The reason, with the operation's own numbers if the rule has them. */
  text: string;
  /** Advice on how to avoid it; may be empty. */
  fix: string;
  /** Core ML's own message, if published; may be empty. */
  core_ml: string;
  /** How the rule is known. */
  confidence: Confidence;
  /** The source of the rule. */
  source: string;
  /** The effect of the rule. */
  effect: Effect;
}

/** A recording by Instruments of a running model. Recording slows a program down. */
export interface Recording {
  /** The tool with its version: `Instruments 27.0`. */
  tool: string;
  /** The template: `Core ML`; empty if unknown. */
  template: string;
  /** The process that was recorded, with its id; empty if unknown, or if all were. */
  target: string;
  /** The duration of the recording in seconds; null if unknown. */
  duration_s: number | null;
  /** Predictions in it; null if unknown. */
  predictions: number | null;
  /** true if the recording contains the start and end of each prediction. */
  are_delimited: boolean;
  /**
   * Rows by table that was looked for. null: the recording has no such table. 0 rows mean that nothing was recorded, which is no proof that
   * a unit was idle.
   */
  tables: Record<string, number | null>;
  /** Busy times, by unit and table. */
  units: UnitActivity[];
  /** Samples of call stacks by unit; empty if there are none. */
  samples: UnitSamples[];
  /** Samples of all stacks, those of no unit included. */
  total_samples: number;
  origin: Origin;
}

/** A column of the results of sweeps. */
export interface ResultColumn {
  /** Its name; of labels and numbers of the user `labels.family`, `numbers.accuracy`. */
  name: string;
  /** What it means; empty for labels and numbers of the user. */
  meaning: string;
  /** What its values are. */
  quantity: ColumnQuantity;
  /** The origin of its numbers; null for texts, and the user's numbers. */
  origin: Origin | null;
  /** One value for each row; null where it is unknown. */
  values: (string | number | null)[];
}

/** Results of sweeps, for a page. */
export interface ResultTable {
  /** Number of rows. */
  rows: number;
  /** Its columns; those without any value are left out. */
  columns: ResultColumn[];
}

/** One round of partitioning: one line of ONNX Runtime's log. */
export interface Round {
  /** The graph; empty for that of the model. */
  graph: string;
  /** Number of partitions. */
  partitions: number;
  /** Number of operators of the graph then. */
  nodes: number;
  /** Number of operators in partitions. */
  supported: number;
  /** The line. */
  line: string;
}

/**
 * The measured time of operations that correspond to each other. It is never split among operations that the engine runs as one, so a row
 * holds all that belongs together on either side.
 */
export interface RowChange {
  /** Types of the operations; where they differ, those of both: `conv + relu → conv + silu`. */
  label: string;
  /** The author's name of the first operation. */
  name: string;
  /** Ids of the operations in the base. */
  before: string[];
  /** Ids of the operations in the other. */
  after: string[];
  /** `added` or `removed` if the operations have no counterpart. */
  presence: Presence;
  /** The measured time, in seconds. */
  time: Change;
}

/** How often ONNX Runtime and a rule agree on operators of a type. */
export interface RuleAgreement {
  /** The type of the operators. */
  op: string;
  /** The rule that keeps them out; `taken` for none. */
  rule: string;
  /** Number of operators of which both say the same. */
  agreed: number;
  /** The others, in ONNX Runtime's words. */
  differing: LoggedNode[];
}

/** The runtime that compiled, loaded and ran the model. */
export interface Runtime {
  /** The id of an engine or of another runtime: `onnxruntime`, `coreml`. */
  id: string;
  /** The display name: `ONNX Runtime`, `Core ML`. */
  name: string;
  /** Its version; empty if unknown. */
  version: string;
  /** The library through which it was called: `coremltools 9.0`; empty if it was called directly. */
  through: string;
}

/** The cost that a model saves on a device once a finding is fixed. */
export interface Saving {
  /** The device. */
  device: string;
  /** Its system. */
  os: string;
  /** The setting. */
  compute_units: string;
  /** The planned cost without it, launches and changes of unit included. */
  planned_ms: number;
  /** How much less that is than the plan. */
  saved_ms: number;
  /** The estimated time that a prediction takes less, in seconds, with an 80 % interval; null where no time is estimated. */
  saved_s: Figure | null;
}

/** A class with its score. */
export interface ScoredClass {
  /** The name of the class, or its number. */
  label: string;
  /** The score; a probability where all scores of the output are from 0 to 1. */
  score: number;
}

/** A box over the picture; all lengths are shares of its width or height. */
export interface SeenBox {
  /** The class. */
  label: string;
  /** The score. */
  score: number;
  /** The left edge. */
  left: number;
  /** The upper edge. */
  top: number;
  /** The width. */
  width: number;
  /** The height. */
  height: number;
}

/** A point over the picture. */
export interface SeenPoint {
  /** What it marks. */
  label: string;
  /** The height of its map there. */
  score: number;
  /** From the left edge, as a share of the width. */
  x: number;
  /** From the upper edge, as a share of the height. */
  y: number;
}

/** A setting of compute units. */
export interface SettingChoice {
  /** The setting. */
  compute_units: ComputeUnits;
  /** Estimated seconds under it; given the estimate under the setting that it is compared with. */
  latency: Figure;
  /** How sure it is that it is faster than that one; `likely` for the setting itself. */
  certainty: Certainty;
  /** The unit that does most of the work under it. */
  unit: ComputeUnit;
}

/** The plan under one setting of compute units. */
export interface SettingPlan {
  /** The setting. */
  compute_units: ComputeUnits;
  /** The cost of every function that was planned, by name; in a pipeline by `STAGE/FUNCTION`. */
  functions: Record<string, FunctionCost>;
  /**
   * Of the plans with rates at the ends of their intervals, the one that differs most; null where none of them differs by more than a few
   * operations.
   */
  other_plan: OtherPlan | null;
  /** What each reason costs, by function; the largest planned saving first. Empty for plans of Core ML, and where it was not asked for. */
  what_ifs: WhatIf[];
}

/** The requested settings of a measurement. */
export interface Settings {
  /** The requested setting; only Core ML uses it. */
  compute_units: string;
  /** The function; empty for the default one. */
  function: string;
  /** Timed predictions; the most of them if `early` names them. */
  iterations: number;
  /** Timed compilations, likewise. */
  compile_iterations: number;
  /** Timed loads, likewise. */
  load_iterations: number;
  /** Phases that end early: `compile` and `load` when their time is spent, `predict` when the interval of the median is narrow. */
  early: string[];
  /** Predictions before the timed ones; null to detect a steady state. */
  warmups: number | null;
  /** Seed of synthetic inputs and weights. */
  seed: number;
  /** Shapes of inputs that differ from the defaults. */
  shapes: Record<string, number[]>;
  /** Inputs whose values were given; the others were synthetic. */
  inputs: string[];
  /** Whether absent weights were replaced by synthetic ones. */
  random_weights: boolean;
  /**
   * `fp16` requests one additional, untimed prediction in which every result that is declared as fp16 is rounded as on a device and its
   * range is recorded.
   */
  precision: Precision;
  /** Whether operations are timed as well, by engines that can. */
  times_operations: boolean;
}

/** The work that two models have in common. */
export interface SharedWork {
  /** Floating-point operations of the base. */
  flops: number;
  /** Floating-point operations of the other model. */
  other_flops: number;
  /** Those that are paired: in each pair of groups, the smaller number counts. */
  shared_flops: number;
  /** Number of paired operations. */
  pairs: number;
  /** The groups whose types differ, those with the most work first. */
  groups: WorkGroup[];
  /** Ids of operations of the base that belong to no pair. */
  unpaired: string[];
  /** The same for the other model. */
  other_unpaired: string[];
  /**
   * FLOPs of the base that read neither an input nor a state, so that a converter may compute them once. No other number of FLOPs contains
   * them.
   */
  fixed_flops: number;
  /** The same for the other model. */
  other_fixed_flops: number;
}

/** The parameters of an operation. Operations with equal parameters share one. */
export interface Signature {
  /** The parameters that values or weights are given for, in alphabetical order; once per argument. */
  parameters: string[];
  /** Pairs of parameter and constant, as text: `strides` and `[1, 1]`. */
  attributes: [string, string][];
}

/** A line of a program that made a call. */
export interface Site {
  /** The path of the source file. */
  file: string;
  /** The line. */
  line: number;
  /** The function. */
  function: string;
}

/** A model of a pipeline that is not a pipeline itself. */
export interface StageSummary {
  /** Its path in the pipeline: `model0`, `encoder/model1`. The ids of its operations begin with it. */
  name: string;
  /** Apple's name of the model type. */
  kind: string;
  /** Name and readable type of each input. */
  inputs: [string, string][];
  /** Name and readable type of each output. */
  outputs: [string, string][];
  /** Other contents of its file: pairs of label and readable value. */
  facts: [string, string][];
  /** Why it cannot be run here, as the end of a sentence; empty if it can be run. */
  absent: string;
  /** Number of operations without constants; null where unknown. */
  operations: number | null;
  /** Number of parameters. */
  parameters: number;
  /** Bytes of its parameters in the file. */
  weights_bytes: number;
}

/** Times of a stage of a pipeline. All times are medians, in seconds. */
export interface StageTiming {
  /** Its path in the pipeline: `model0`, `encoder/model1`; the ids of its operations begin with it. */
  name: string;
  /** Apple's name of the model type. */
  kind: string;
  /**
   * Why it was not run, as the end of a sentence; it was replaced by synthetic values of its outputs' types and shapes. Empty if it was
   * run.
   */
  absent: string;
  /** Time in a prediction, without the engine's profiler; null if it was not run. */
  run_s: number | null;
  /** Time of converting the outputs of earlier stages to its inputs; null if it was not run. */
  convert_s: number | null;
  /** The sum over its groups, from the profiled runs; null if it was not run. */
  operations_s: number | null;
  origin: Origin;
}

/** Summary statistics of samples, in the samples' unit. */
export interface Statistics {
  /** Number of samples. */
  count: number;
  min: number;
  /** The middle sample, or the mean of the middle two. */
  median: number;
  mean: number;
  /** The 95th percentile, interpolated linearly between the two neighbouring samples. */
  p95: number;
  /** The 99th percentile, interpolated in the same way. */
  p99: number;
  max: number;
  /** Sample standard deviation (divisor `count - 1`; 0 for a single sample). */
  std: number;
}

/** One of the compared models or profiles. */
export interface Subject {
  /** The shortest label that distinguishes it from the others. */
  label: string;
  /** The path from which the model was read. */
  path: string;
  /** Properties of the model and of the measurement: readable values by label. */
  facts: Record<string, string>;
}

/** A part of the time of a prediction; the shares of all parts add up to 1. */
export interface TimePart {
  /** What the time is spent on. */
  part: string;
  /** Its share of the time. */
  share: number;
  /** Indices of its kernels in the estimate; empty for what belongs to none. */
  kernels: number[];
}

/** Durations of a phase around the calls of a library in Python. */
export interface TimesThroughPython {
  /** Seconds, in the order of measurement. */
  samples_s: number[];
  /** Summary statistics of `samples_s`. */
  statistics: Statistics;
  /** `measured`. */
  origin: Origin;
}

/** The estimated speed of a language model on a device under one setting. Nothing was measured. */
export interface TokenRate {
  /** The device, or its chip. */
  device: string;
  /** The chip's id. */
  chip: string;
  /** The system. */
  os: string;
  /** The assumed setting. */
  compute_units: ComputeUnits;
  /** The function. */
  function: string;
  /** `decode` or `prefill`. */
  phase: GenerationPhase;
  /** Tokens that a prediction processes. */
  tokens: number;
  /** Tokens that the cache has room for. */
  context: number;
  /** Bytes of the cache of keys and values. */
  cache_bytes: number;
  /** Seconds of a prediction, with an 80 % interval. */
  step_s: Figure;
  /**
   * Tokens per second, with an 80 % interval: of predictions one after the other, without sampling and whatever else an app does between
   * them.
   */
  tokens_per_s: Figure;
  /** The bottleneck of a prediction. */
  bound: Bound;
  /** Whether the latency model was fitted to latencies of this chip and unit. */
  basis: EstimateBasis;
  /** The unit that takes most of the time of a prediction; null if unknown. A prefill on another unit may take less time than one token. */
  unit: ComputeUnit | null;
  /** Which of the user's own measurements it uses; null if it uses published ones alone. */
  own: OwnCalibration | null;
  /** Tokens of the cache that a prediction reads; in profiles of older versions 0. */
  attended: number;
}

/** The speed of a language model, in tokens per second. */
export interface TokenSpeed {
  /** Of decoding; null where the model has no such step. */
  decode: Figure | null;
  /** Of a prompt; null where the model has no such step. */
  prefill: Figure | null;
  /** Tokens that the cache has room for. */
  context: number;
  /** Why there is no rate, for a model that takes tokens and gives probabilities of a vocabulary; empty for others. */
  unknown: string;
}

/** The measured speed of a language model in predictions of one kind, which share one state. */
export interface TokenTiming {
  /** The source of the times, as in `Measurement`. */
  label: string;
  /** The setting of compute units in effect; empty if the runtime has none. */
  compute_units: string;
  /** The function. */
  function: string;
  /** `decode` or `prefill`. */
  phase: GenerationPhase;
  /** Tokens that a prediction processes. */
  tokens: number;
  /** Tokens that the cache has room for. */
  context: number;
  /** Tokens of the cache that a prediction reads. */
  attended: number;
  /** Bytes of the cache of keys and values, in the type of the file. */
  cache_bytes: number;
  /** Bytes of the cache in this runtime, which may have another type; null if unknown. */
  held_bytes: number | null;
  /** Shapes of inputs that differ from the defaults. */
  shapes: Record<string, number[]>;
  /** The predictions, one after the other. */
  predict: Phase;
  /** Seconds of a prediction: the median, with its 95 % confidence interval. */
  step_s: Figure;
  /** Tokens per second at the median, with its interval. */
  tokens_per_s: Figure;
  /** Peak resident memory of the process that ran them; null if unknown. */
  peak_memory_bytes: number | null;
}

/** A recording of a program, with its children. */
export interface Trace {
  /** The events of all processes. */
  events: Events;
  /** When it began, as ISO 8601 in UTC. */
  made: string;
  /** The same in nanoseconds since 1970, to which the times of events add. */
  epoch_ns: number;
  /** The version of coremlscope. */
  version: string;
  /** The processor and the system. */
  host: string;
  /** The command line of the recorded program; empty in a program that records itself. */
  command: string[];
  /** From the start of the recording to its end. */
  duration_ns: number;
  /** The processes, the first one first. */
  processes: TracedProcess[];
  /** The loaded models, in the order of loading. */
  models: TracedModel[];
  /** The names of threads. */
  threads: string[];
  /** The names of asyncio's tasks. */
  tasks: string[];
  /** The lines that made calls. */
  sites: Site[];
  /** What events say about themselves: `float64[1,3,224,224] → float16`. */
  details: string[];
  /** What should be changed, the costliest first. */
  mistakes: Mistake[];
  /** The mistakes that were looked for, by id: those that the recording has the events for. */
  searched: string[];
  /** Samples of call stacks by unit, where Instruments took some. */
  samples: UnitSamples[];
  /** Frames per second that the program should reach; null if not asked. */
  fps: number | null;
  /** Times are measured. */
  origin: Origin;
}

/** An input or output of a model. */
export interface TracedFeature {
  /** Its name. */
  name: string;
  /** `array`, `image`, or another type's name. */
  type: string;
  /** Of arrays, and of the pixels of images: `float16`, `uint8`. */
  dtype: string;
  /** Of arrays; height, width and, for color, channels of images; empty if unknown. 0 marks a flexible size. */
  shape: number[];
}

/** A loaded model: each load makes another one. */
export interface TracedModel {
  /** The name of its file, without the suffix. */
  name: string;
  /** Its path; empty for a model that was made in memory. */
  path: string;
  /** Equal for loads of the same model. */
  key: string;
  /** What runs it: `Core ML`, `coremlscope`, `ONNX Runtime`. */
  runtime: string;
  /** The function; empty for the default one. */
  function: string;
  /** The setting; empty if there is none. */
  compute_units: string;
  /** Position in `Trace.processes`. */
  process: number;
  /** Its inputs. */
  inputs: TracedFeature[];
  /** Its outputs. */
  outputs: TracedFeature[];
  /** Whether it computes in fp16; null if unknown. */
  is_half: boolean | null;
  /** When loading ended, in nanoseconds from the start of the trace. */
  loaded_at_ns: number;
  /** When it was released; null if it never was. */
  unloaded_at_ns: number | null;
}

/** A recorded process. */
export interface TracedProcess {
  /** Its number. */
  pid: number;
  /** The number of the process that started it. */
  parent: number;
  /** Its command line. */
  command: string[];
  /** When recording began, in nanoseconds from the start of the trace. */
  started_ns: number;
  /** Whether it stopped recording by itself; false if it was killed or still ran. */
  ended: boolean;
  /** Events that later ones replaced, because the ring was full. */
  lost: number;
  /** Time that recording took. */
  overhead_s: number;
}

/** Costs of a plan besides its operations, in milliseconds. */
export interface Transitions {
  /** For each backend: the cost of entering it. */
  launch_ms: Record<string, number>;
  /** The cost of every change of backend. */
  switch_ms: number;
  /** For each backend: the cost of ending on it. */
  finish_ms: Record<string, number>;
}

/** The planned cost of all operations of one type. */
export interface TypeCost {
  /** Apple's name. */
  type: string;
  /** Number of operations in the base. */
  before: number;
  /** Number of operations in the other plan. */
  after: number;
  /** Their cost, in seconds; null on a side without such operations. */
  planned: Change;
}

/** When a compute unit was busy, by one table of a recording. */
export interface UnitActivity {
  /** `cpu`, `gpu` or `neural_engine`. */
  unit: ComputeUnit;
  /** The table: `ane-hw-intervals`. */
  table: string;
  /** `device`: the table does not distinguish processes. `processes`: it names them. */
  scope: Scope;
  /** How many intervals there are. */
  intervals: number;
  /** Time that at least one interval covers, in seconds. */
  busy_s: number;
  /** The start of the first interval, in seconds from the start of the recording. */
  first_s: number;
  /** The end of the last one. */
  last_s: number;
  /** Summary statistics of the durations of intervals, in seconds; null if there are none. */
  durations: Statistics | null;
  /** By label, longest first. */
  labels: ActivityPart[];
  /** By process, longest first; empty if the table does not name them. */
  processes: ActivityPart[];
  /** Summary statistics of the busy time within each prediction, in seconds; null if the recording does not delimit predictions. */
  per_prediction: Statistics | null;
  /** The mean number of intervals that begin in a prediction; null likewise. */
  intervals_per_prediction: number | null;
}

/** The energy of a part of the system over a window. */
export interface UnitEnergy {
  /** `cpu`, `gpu`, `neural_engine`, `memory` or `system`. */
  unit: SystemPart;
  /** The mean power in watts. */
  power_w: number;
  /** Joules; null if the length of the window is unknown. */
  energy_j: number | null;
}

/** Samples of call stacks with frames of a unit's software; a stack may count for several units. */
export interface UnitSamples {
  /** `cpu` (BNNS), `gpu` (Metal, Metal Performance Shaders) or `neural_engine`. */
  unit: ComputeUnit;
  /** How many there are. */
  samples: number;
  /** By function and thread, the most frequent first. */
  frames: FrameSamples[];
}

/** The terms of a compute unit in the estimated time of a prediction, in seconds. */
export interface UnitTerms {
  /** The unit. */
  unit: ComputeUnit;
  /** Arithmetic. */
  compute_s: number;
  /** Streaming of weights. */
  weights_s: number;
  /** Reading and writing of activations. */
  activations_s: number;
  /** Overheads of kernels: starting each, and functions at the end of some. */
  operations_s: number;
  /** The fixed overhead of using the unit in a prediction. */
  launch_s: number;
}

/** How far a value of one model is from its counterpart. */
export interface ValueAgreement {
  /** Its name in the base. */
  before: string;
  /** Its name in the other model. */
  after: string;
  /** The id of the operation of the base that computes it; empty for outputs. */
  op: string;
  /** The root mean square of the difference over that of the base. */
  error: number;
  /** The largest absolute difference. */
  largest: number;
  /** The cosine of the angle between both; null if it is not defined. */
  cosine: number | null;
  /** Whether the largest element is at the same place; null for intermediate values. */
  same_top: boolean | null;
}

/** A model after one transform or several, or why there is none. */
export interface Variant {
  /** Its name, which `--apply` takes: `palettize-4`, `prune-50+int8`. */
  name: string;
  /** The same in words. */
  title: string;
  /** Bytes of the package or file. */
  size_bytes: number | null;
  /** Bytes of the weights in it. */
  weights_bytes: number | null;
  /** How most of the weights are stored: `LUT 4-bit`. */
  storage: string;
  /** The oldest systems that read it. */
  platforms: string;
  /** Plans and estimates, by device and setting. */
  forecasts: VariantForecast[];
  /** How far its outputs are from the original's; null for the original, and where they were not compared. */
  difference: VariantDifference | null;
  /** Remarks. */
  notes: string[];
  /** Why the variant, or a part of what is asked of it, is missing; empty if nothing is. */
  failure: string;
  /** What to do about it. */
  hint: string;
  /** The exit code of that error. */
  exit_code: number;
  /** How long the transform took. */
  seconds: number | null;
}

/** How far the outputs of a variant are from those of the original. */
export interface VariantDifference {
  /** Number of inputs that were predicted. */
  samples: number;
  /** How many of them are synthetic. */
  synthetic: number;
  /** The arithmetic of the predictions: `fp32`, or `fp16` where each fp16 result was rounded. */
  precision: string;
  /** The outputs. */
  outputs: OutputDifference[];
}

/** The plan and estimate of a variant on a device under one setting. */
export interface VariantForecast {
  /** How fast it is, and how far to believe it; without changes, and without where the time goes. */
  answer: Answer;
  /** Whether it is faster than the original; null for the original. */
  verdict: PairVerdict | null;
  /** Number of operations on each unit, as planned. */
  operations: Partial<Record<ComputeUnit, number>>;
  /** The memory of a prediction. */
  memory: MemoryEstimate;
}

/** A model and its variants. */
export interface VariantReport {
  /** The path of the model. */
  path: string;
  /** Apple's name of the model type. */
  kind: string;
  /** When, where and by which version. */
  made: Provenance;
  /** The version of coremltools that is installed, which applies some of the transforms. */
  coremltools: string;
  /** The original first. */
  variants: Variant[];
  /** Remarks on all of them. */
  findings: Finding[];
}

/** The weights that are stored in one way. */
export interface WeightGroup {
  /** `fp16`, `LUT 4-bit`, `affine int8`, `sparse fp16`. */
  storage: string;
  /** The element type as seen by operations. */
  dtype: string;
  /** Number of weights. */
  tensors: number;
  /** Their elements, decompressed. */
  parameters: number;
  /** Bytes in the file, scales and tables included. */
  nbytes: number;
}

/** The type of weights and how they are stored. */
export interface WeightKind {
  /** The element type and shape, as operations see it. */
  type: string;
  /** `fp16`, `LUT 4-bit`. */
  storage: string;
}

/** A column for each property of the weights that operations read. */
export interface WeightTable {
  /** All distinct kinds. */
  kinds: WeightKind[];
  /** The author's names; empty where the file has none. */
  name: string[];
  /** The kind of each weight. */
  kind: number[];
  /** Bytes in the file. */
  stored_bytes: number[];
  /**
   * The number of values that the range and the histogram are taken from, evenly spaced if it is less than the number of elements; 0 where
   * no values were read.
   */
  looked_at: number[];
  /** The smallest finite value, to four digits; null where no values were read. */
  least: (number | null)[];
  /** The greatest finite value, to four digits. */
  greatest: (number | null)[];
  /**
   * Thousandths of the values in 16 intervals of equal width from the smallest to the greatest; 1 for less than a thousandth. Empty where
   * no values were read, and for short weights.
   */
  histogram: number[][];
}

/** The plan again under a hypothesis about operations that are not on the fastest unit. */
export interface WhatIf {
  /** What is assumed. */
  hypothesis: Hypothesis;
  /** The unit from which the operations are kept; for doubts the one that they run on. */
  unit: ComputeUnit;
  /** The function. */
  function: string;
  /** The rule's id; `plan-cost` for operations that launches keep from the unit; empty for all rules. */
  rule: string;
  /** The reason, with the numbers of the first operation. */
  reason: string;
  /** How to avoid it; may be empty. */
  fix: string;
  /** How the rule is known. */
  confidence: Confidence;
  /** The source of the rule. */
  source: string;
  /** true where the reasons of other operations have other numbers. */
  varies: boolean;
  /** The operations that the reason concerns, by their place in the plan. */
  ops: number[];
  /** How many operations move to each unit; those that only follow others included. */
  moved: Partial<Record<ComputeUnit, number>>;
  /** The planned cost of the function, launches and changes of unit included. */
  planned_ms: number;
  /** How much less that is than the plan; negative where it is more. */
  saved_ms: number;
  /** Number of changes of unit. */
  switches: number;
  /**
   * The estimated time that a prediction takes less, in seconds, with an 80 % interval; null where nothing moves or no time is estimated.
   */
  saved_s: Figure | null;
  /** All of this as a sentence. */
  effect: string;
}

/** Operations of two models that compute the same. */
export interface WorkGroup {
  /** Their ids in the base, in order; the last one computes the result. */
  before: string[];
  /** Their ids in the other model. */
  after: string[];
  /** Their types in the base, and in the other model. */
  types: [string, string];
  /** Their floating-point operations in the base. */
  flops: number;
  /** Their floating-point operations in the other model. */
  other_flops: number;
}

/** The declared work of one prediction at the bound shapes; derived from the file, not measured. */
export interface WorkSummary {
  /** FLOPs; a multiply-add counts as two. */
  flops: number;
  read_bytes: number;
  weight_bytes: number;
  written_bytes: number;
  /** false if a shape or an operation is unknown, so that the figures are lower bounds. */
  is_complete: boolean;
  /** Number of operations of each unknown type. */
  unknown_ops: Record<string, number>;
  /** The share of the parameters that operations of unknown types read. Where it is above 0.2, reports give no figures of the work. */
  left_out_share: number;
  /**
   * The most bytes of inputs and results that are alive at the same time, by their declared types; null where a size is not known, and in
   * older profiles.
   */
  live_bytes: number | null;
  /** The sizes of flexible inputs that the figures are for: `x 768×768`; empty for fixed ones. */
  sizes: string;
}

export interface ProfileForm extends Profile {
  schema: "coremlscope.profile/2";
}

export interface ProfilesForm {
  schema: "coremlscope.profiles/2";
  profiles: ProfileForm[];
}

export interface ModelForm extends ModelSummary {
  schema: "coremlscope.model/2";
}

export interface ComparisonForm extends Comparison {
  schema: "coremlscope.comparison/2";
  differing: string[];
  profiles: ProfileForm[];
}

export interface TraceForm extends Trace {
  schema: "coremlscope.trace/1";
  facts: [string, string][];
  kinds: EventKind[];
}

export interface VariantsForm extends VariantReport {
  schema: "coremlscope.variants/1";
}

export interface ResultsForm extends ResultTable {
  schema: "coremlscope.results/1";
}

export interface PreviewForm extends Preview {
  schema: "coremlscope.preview/1";
  model: string;
}

export interface ServerForm extends PageState {
  schema: "coremlscope.server/3";
}

/** Display names of Apple's model types. */
export const KIND_NAMES: Record<string, string> = {
  mlProgram: "ML Program",
  coreAIProgram: "Core AI program",
  onnx: "ONNX model",
  neuralNetwork: "neural network",
  neuralNetworkClassifier: "neural network classifier",
  neuralNetworkRegressor: "neural network regressor",
  pipeline: "pipeline",
  pipelineClassifier: "pipeline classifier",
  pipelineRegressor: "pipeline regressor",
  visionFeaturePrint: "Vision feature print",
  audioFeaturePrint: "audio feature print",
  soundAnalysisPreprocessing: "sound preprocessing",
  textClassifier: "text classifier",
  wordTagger: "word tagger",
  gazetteer: "gazetteer",
  wordEmbedding: "word embedding",
  customModel: "custom model",
  linkedModel: "linked model",
  identity: "identity",
  nonMaximumSuppression: "non-maximum suppression",
  treeEnsembleClassifier: "tree ensemble classifier",
  treeEnsembleRegressor: "tree ensemble regressor",
  supportVectorClassifier: "support vector classifier",
  supportVectorRegressor: "support vector regressor",
  glmClassifier: "generalized linear classifier",
  glmRegressor: "generalized linear regressor",
  kNearestNeighborsClassifier: "k-nearest neighbors classifier",
  bayesianProbitRegressor: "Bayesian probit regressor",
  itemSimilarityRecommender: "item similarity recommender",
  scaler: "scaler",
  imputer: "imputer",
  normalizer: "normalizer",
  oneHotEncoder: "one-hot encoder",
  dictVectorizer: "dictionary vectorizer",
  featureVectorizer: "feature vectorizer",
  arrayFeatureExtractor: "array feature extractor",
  categoricalMapping: "categorical mapping",
};

/** What a page shows; `schema` tells the kinds apart. */
export type Result =
  | ProfileForm
  | ProfilesForm
  | ModelForm
  | ComparisonForm
  | TraceForm
  | VariantsForm
  | ResultsForm
  | PreviewForm
  | ServerForm;
