import golden from "../../tests/golden/page-payload.json";
import { Placement } from "../src/data/placement";
import { buildRows, type OpTimes, type Row } from "../src/data/rows";
import type {
  ChoiceColumns,
  ComputeUnits,
  Estimate,
  Finding,
  Group,
  InsertedOp,
  Kernel,
  Measurement,
  OpTable,
  Phase,
  Plan,
  PlanColumns,
  ProfileForm,
  Reason,
  SettingPlan,
  WhatIf,
} from "../src/data/schema";

/** The profile of the golden payload: four operations in two groups, a plan and estimates for one device. */
export const goldenProfile = (): ProfileForm => structuredClone(golden) as unknown as ProfileForm;

/** The first of a list; tests fail where it is empty. */
export function first<T>(list: readonly T[] | undefined): T {
  const found = list?.[0];
  if (found === undefined) throw new Error("the list is empty");
  return found;
}

export const goldenPlan = (): Plan => first(goldenProfile().plans);
export const goldenMeasurement = (): Measurement => first(goldenProfile().measurements);

const NO_DETAILS: OpTable["details"] = {
  signatures: [],
  signature: [],
  arguments: [],
  weights: { kinds: [], name: [], kind: [], stored_bytes: [], looked_at: [], least: [], greatest: [], histogram: [] },
};

/** An op table with one column entry for each id; `columns` replaces what a test is about. */
export function opTable(ids: readonly string[], columns: Partial<OpTable> = {}): OpTable {
  return {
    id: [...ids],
    type: ids.map(() => "add"),
    name: ids.map((id) => `name of ${id}`),
    function: ids.map((id) => id.split("/", 1)[0] ?? ""),
    outputs: ids.map(() => ["tensor<fp16, [1, 3]>"]),
    output_names: ids.map(() => []),
    flops: ids.map(() => 10),
    read_bytes: ids.map(() => 4),
    written_bytes: ids.map(() => 2),
    weight_bytes: ids.map(() => 0),
    work_is_complete: ids.map(() => true),
    layer: ids.map(() => null),
    layer_type: ids.map(() => null),
    inputs: ids.map(() => null),
    live_bytes: ids.map(() => null),
    details: NO_DETAILS,
    ...columns,
  };
}

/** A finding that concerns no operation. */
export function finding(id: string, changes: Partial<Finding> = {}): Finding {
  const known = { confidence: "" as const, source: "", savings: [], saved_bytes: 0, transform: "" };
  return { id, severity: "warning", text: `text of ${id}`, hint: "", ops: [], exit_code: 0, ...known, ...changes };
}

/** A measured group of operations, given as rows of the op table. */
export function group(label: string, ops: readonly number[], seconds: number): Group {
  return { label, ops: [...ops], wall_s: seconds, share: 0, engine_nodes: [["node", "Node"]], low_s: null, high_s: null, stage: "" };
}

/** The times of so many operations: each belongs to the group that lists it. */
export function times(count: number, groups: Group[] = []): OpTimes {
  const ops = Array.from({ length: count }, (_, op) => op);
  return { groups, group: ops.map((op) => groups.findIndex((one) => one.ops.includes(op))), status: ops.map(() => "timed") };
}

/** A phase of equal samples. */
export function phase(seconds: number, count = 3): Phase {
  const s = { count, min: seconds, median: seconds, mean: seconds, p95: seconds, p99: seconds, max: seconds, std: 0 };
  return {
    samples_s: new Array<number>(count).fill(seconds),
    warmups_s: [],
    statistics: s,
    through_python: null,
    remark: "",
    origin: "measured",
  };
}

export const measurement = (label: string, changes: Partial<Measurement> = {}): Measurement => ({
  ...goldenMeasurement(),
  label,
  ...changes,
});

export const kernel = (...ops: number[]): Kernel => ({ name: "", kind: "", ops });

/** An operation that Core ML inserts. */
export function inserted(id: string): InsertedOp {
  return { id, type: "cast", function: id.split("/", 1)[0] ?? "", outputs: ["tensor<fp32, [2]>"], output_names: [] };
}

export function reason(rule: string, changes: Partial<Reason> = {}): Reason {
  const text = `text of ${rule}`;
  return { unit: "neural_engine", rule, text, fix: "", core_ml: "", confidence: "measured", source: "", effect: "rejects", ...changes };
}

export function estimate(changes: Partial<Estimate> = {}): Estimate {
  return {
    device: "M9",
    chip: "m9",
    os: "macOS 99",
    compute_units: "all",
    latency: { value: 1, low: 1, high: 1, origin: "estimated" },
    basis: "calibrated",
    bound: "compute",
    left_out_share: 0,
    parts: {},
    placement: {},
    switches: 0,
    left_out: [],
    notes: [],
    terms: [],
    own: null,
    load: null,
    memory: null,

    near: [],
    kernels: [],
    kernel_of: [],
    kernel_s: [],
    kernel_unit: [],
    kernel_bound: [],
    units: ["cpu", "gpu", "neural_engine"],
    ...changes,
  };
}

/** A setting of `plan`, with where operations go under it. */
export type SettingParts = SettingPlan & ChoiceColumns;

/** A plan under one setting; `total` is the planned cost of its one function in milliseconds. */
export function settingPlan(changes: Partial<SettingParts> = {}, total = 0): SettingParts {
  const functions = { main: { total_ms: total, switches: 0, time_shares: {} } };
  return {
    compute_units: "all",
    functions,
    backend: [],
    detour_ms: {},
    weight: [],
    alternatives: {},
    other_plan: null,
    what_ifs: [],
    ...changes,
  };
}

/** A plan made again without a rule that keeps no operation from the Neural Engine. */
export function whatIf(changes: Partial<WhatIf> = {}): WhatIf {
  return {
    hypothesis: "without",
    unit: "neural_engine",
    function: "main",
    rule: "rule",
    reason: "some reason",
    fix: "",
    confidence: "measured",
    source: "",
    varies: false,
    ops: [],
    moved: {},
    planned_ms: 0,
    saved_ms: 0,
    switches: 0,
    saved_s: null,
    effect: "",
    ...changes,
  };
}

/** The backends of `plan`, by their index. */
export const BACKEND = { ane: 0, mps: 1, bnns: 2, unknown: -1 } as const;

/** What a test's plan differs in: its columns are of all operations, in the order of the plan. */
type PlanParts = Partial<Omit<Plan, "settings" | "ops">> & Partial<Omit<PlanColumns, "choices">> & { settings?: SettingParts[] };

/**
 * A plan with the backends `ane`, `mps` and `bnns` for so many operations, all of them supported everywhere,
 * at 1, 2 and 4 ms. Without settings of its own it has one, `all`, that runs everything on the Neural Engine.
 * Their ids are `main/0`, `main/1`, …; those of `inserted` come first.
 */
export function plan(count: number, changes: PlanParts = {}): Plan {
  const filled = <T>(value: T): T[] => new Array<T>(count).fill(value);
  const parts = changes.settings ?? [settingPlan({ backend: filled(BACKEND.ane) })];
  const {
    inserted = [],
    id,
    supported,
    cost_ms,
    cost_basis,
    bases,
    reasons,
    why,
    advice,
    doubts,
    settings: _,
    backends,
    ...rest
  } = changes;
  const units: Plan["backends"] = backends ?? { ane: "neural_engine", mps: "gpu", bnns: "cpu" };
  const numbered = Array.from({ length: count - inserted.length }, (_none, index) => `main/${index}`);
  return {
    device: "M9",
    chip: "m9",
    os: "macOS 99",
    planner: "rules",
    cost_model: "test",
    notes: [],
    left_out: "",
    left_out_share: 0,
    units: ["cpu", "gpu", "neural_engine"],
    backends: units,
    ops: {
      id: id ?? [...inserted.map((op) => op.id), ...numbered],
      inserted,
      backends: units,
      supported: supported ?? { cpu: filled(1), gpu: filled(1), neural_engine: filled(1) },
      cost_ms: cost_ms ?? { ane: filled(1), mps: filled(2), bnns: filled(4) },
      cost_basis: cost_basis ?? {},
      bases: bases ?? [],
      reasons: reasons ?? [],
      why: why ?? [],
      advice: advice ?? [],
      doubts: doubts ?? [],
      choices: Object.fromEntries(
        parts.map(({ compute_units, backend, detour_ms, weight, alternatives }) => [
          compute_units,
          { backend, detour_ms, weight, alternatives },
        ]),
      ),
    },
    transitions: null,
    origin: "planned",
    settings: parts.map(({ compute_units, functions, other_plan, what_ifs }) => ({ compute_units, functions, other_plan, what_ifs })),
    ...rest,
  };
}

/** The placement of a plan's operations under one of its settings. */
export const placementOf = (one: Plan, setting: ComputeUnits = "all"): Placement => new Placement(one, setting);

/** Rows of one function, one for each `[type, name]`. */
export function rowsOf(ops: readonly (readonly [type: string, name: string])[]): Row[] {
  const ids = ops.map((_, index) => `main/${index}`);
  return buildRows(opTable(ids, { type: ops.map(([type]) => type), name: ops.map(([, name]) => name) }), null, null).all;
}
