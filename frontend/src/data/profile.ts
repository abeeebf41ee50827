/** The JSON of a profile, as `Profile.to_json` in Python writes it. Seconds, bytes and counts, never formatted. */

export type Unit = "cpu" | "gpu" | "neural_engine";
export type Setting = "all" | "cpu_and_ne" | "cpu_and_gpu" | "cpu_only";
export type Origin = "measured" | "planned" | "estimated" | "declared";

export interface Figure {
  value: number;
  low: number;
  high: number;
  origin: Origin;
}

export interface Statistics {
  count: number;
  min: number;
  median: number;
  mean: number;
  p95: number;
  p99: number;
  max: number;
  std: number;
}

export interface Phase {
  samples_s: number[];
  warmups_s: number[];
  origin: Origin;
  statistics: Statistics;
}

export interface Host {
  processor: string;
  cores: number;
  os: string;
  python: string;
  engine: string;
  engine_version: string;
  threads: number;
  label: string;
  power_mode?: string;
}

export interface Request {
  compute_units: string;
  function: string;
  iterations: number;
  seed: number;
  shapes: Record<string, number[]>;
  inputs: string[];
  random_weights: boolean;
  precision: string;
}

export interface Group {
  label: string;
  op_ids: string[];
  wall_s: number;
  share: number;
  engine_nodes: [string, string][];
  low_s?: number | null;
  high_s?: number | null;
}

export interface Finding {
  id: string;
  severity: "info" | "warning";
  text: string;
  hint: string;
  ops: string[];
}

/** Columns of equal length, one entry per operation, in the program's order. */
export interface OpTable {
  id: string[];
  type: string[];
  name: string[];
  function: string[];
  outputs: string[][];
  flops: (number | null)[];
  read_bytes: (number | null)[];
  written_bytes: (number | null)[];
  weight_bytes: (number | null)[];
  /** Index into `groups`; -1 for none. */
  group: number[];
  status: string[];
  work_is_complete: boolean[];
  /** The author's layer of a neural network. */
  layer?: (string | null)[];
  layer_type?: (string | null)[];
  /** The producers of its inputs: indices into this table. */
  inputs?: (number[] | null)[];
  /** Bytes of the values that are live while it runs, without weights; null where a size is unknown. */
  live_bytes?: (number | null)[];
  /** Index of the kernel that a device is assumed to run it in; null where it is unknown. */
  kernel?: (number | null)[];
}

/** An operation that Core ML adds to those of the file. */
export interface InsertedOp {
  id: string;
  type: string;
  function: string;
  outputs: string[];
  /** The index of the op table that it precedes. */
  before: number;
}

export interface PlanReason {
  unit: Unit;
  rule: string;
  text: string;
  fix: string;
  core_ml: string;
  confidence: string;
  source: string;
}

export interface SettingEstimate {
  latency: Figure;
  basis: string;
  bound: string;
  /** Seconds by cause. */
  parts: Record<string, number>;
  placement: Partial<Record<Unit, number>>;
  switches: number;
  /** Columns of equal length, one entry per kernel; see `OpTable.kernel`. */
  kernel_s: number[];
  /** Index into the plan's `units`. */
  kernel_unit: number[];
  kernel_bound: string[];
}

export interface SettingPlan {
  compute_units: Setting;
  total_ms: number;
  switches: number;
  /** Index into the keys of the plan's `backends`; -1 where no unit is known to run it. */
  backend: number[];
  /** The extra cost of the cheapest plan that runs it on a supported unit other than the chosen one. */
  detour_ms: Partial<Record<Unit, (number | null)[]>>;
  estimate: SettingEstimate | null;
}

/** The plan for one device. Columns: every row of the op table, then every one of `inserted`. */
export interface DevicePlan {
  device: string;
  chip: string;
  os: string;
  cost_model: string;
  notes: string[];
  units: Unit[];
  /** The unit of each backend. */
  backends: Record<string, Unit>;
  inserted: InsertedOp[];
  /** 1 yes, 0 no, -1 unknown; null for operations that plans do not list. */
  supported: Record<Unit, (number | null)[]>;
  cost_ms: Record<string, (number | null)[]>;
  reasons: PlanReason[];
  /** Indices into `reasons`: why it does not run on a unit. */
  why: number[][];
  /** Indices into `reasons`: what would make it faster where it runs. */
  advice: number[][];
  settings: SettingPlan[];
}

export interface Feature {
  name: string;
  type: string;
  shape: number[] | null;
  flexibility: string;
  doc: string;
  preprocessing: string;
}

export interface Work {
  flops: number;
  read_bytes: number;
  weight_bytes: number;
  written_bytes: number;
  is_complete: boolean;
  unknown_ops: Record<string, number>;
}

export interface FunctionSummary {
  name: string;
  inputs: Feature[];
  outputs: Feature[];
  states: Feature[];
  opset: string;
  opset_os: string;
  ops: Record<string, number>;
  constants: number;
  compute: Record<string, number>;
  work: Work | null;
}

export interface WeightGroup {
  storage: string;
  dtype: string;
  tensors: number;
  parameters: number;
  nbytes: number;
}

export interface OpSummary {
  id: string;
  type: string;
  name: string;
  outputs: string[];
  flops: number | null;
  read_bytes: number | null;
  written_bytes: number | null;
  weight_bytes: number | null;
  work_is_complete: boolean;
}

/** A model of a pipeline. */
export interface StageSummary {
  name: string;
  kind: string;
  /** Why it cannot be run here; empty where it can. */
  absent: string;
  operations: number | null;
  parameters: number;
}

/** Median times of a model of a pipeline in seconds; null where it was not run. */
export interface StageTiming {
  name: string;
  kind: string;
  absent: string;
  run_s: number | null;
  convert_s: number | null;
  operations_s: number | null;
}

export interface ModelSummary {
  schema: "coremlscope.model/1";
  path: string;
  container: string;
  kind: string;
  spec_version: number;
  platforms: string;
  size_bytes: number;
  functions: FunctionSummary[];
  description: string;
  version: string;
  author: string;
  licence: string;
  stages: StageSummary[];
  /** Other facts of the file: pairs of name and value. */
  facts?: [string, string][];
  weights: WeightGroup[];
  missing_weights: string[];
  op_list: OpSummary[];
  parameters: number;
  weights_bytes: number;
}

export interface NodeTiming {
  iterations: number;
  run_s: number;
  nodes_s: number;
}

export interface DeviceLatency {
  device: string;
  chip: string;
  os: string;
  compute_units: string;
  latency: Figure;
  basis: string;
  bound: string;
  placement: Partial<Record<Unit, number>>;
}

export interface Profile {
  schema: "coremlscope.profile/1";
  model: ModelSummary;
  host: Host;
  request: Request;
  compile: Phase;
  load: Phase;
  predict: Phase;
  nodes: NodeTiming;
  ops: OpTable;
  groups: Group[];
  findings: Finding[];
  estimates: DeviceLatency[];
  plans?: DevicePlan[];
  stages?: StageTiming[];
  predictions_per_s: number;
}
