import golden from "../../tests/golden/page-payload.json";
import { Placement } from "../src/data/placement";
import type {
  DevicePlan,
  Group,
  InsertedOp,
  OpTable,
  PlanReason,
  Profile,
  Setting,
  SettingEstimate,
  SettingPlan,
} from "../src/data/profile";
import { buildRows, type Row } from "../src/data/rows";

/** The profile of the golden payload: four operations in two groups, a plan for one device. */
export const goldenProfile = (): Profile => structuredClone(golden) as unknown as Profile;

/** The first plan of the golden profile. */
export function goldenPlan(): DevicePlan {
  const plan = goldenProfile().plans?.[0];
  if (!plan) throw new Error("the golden payload holds no plan");
  return plan;
}

/** An op table with one column entry for each id; `columns` replaces what a test is about. */
export function opTable(ids: readonly string[], columns: Partial<OpTable> = {}): OpTable {
  return {
    id: [...ids],
    type: ids.map(() => "add"),
    name: ids.map((id) => `name of ${id}`),
    function: ids.map((id) => id.split("/", 1)[0] ?? ""),
    outputs: ids.map(() => ["tensor<fp16, [1, 3]>"]),
    flops: ids.map(() => 10),
    read_bytes: ids.map(() => 4),
    written_bytes: ids.map(() => 2),
    weight_bytes: ids.map(() => 0),
    group: ids.map(() => -1),
    status: ids.map(() => "timed"),
    work_is_complete: ids.map(() => true),
    ...columns,
  };
}

/** A measured group of operations. */
export function group(label: string, ids: readonly string[], seconds: number): Group {
  return { label, op_ids: [...ids], wall_s: seconds, share: 0, engine_nodes: [["node", "Node"]] };
}

/** An operation that Core ML inserts before an index of the op table. */
export function inserted(id: string, before: number): InsertedOp {
  return { id, type: "cast", function: id.split("/", 1)[0] ?? "", outputs: ["tensor<fp32, [2]>"], before };
}

export function reason(rule: string, changes: Partial<PlanReason> = {}): PlanReason {
  return { unit: "neural_engine", rule, text: `text of ${rule}`, fix: "", core_ml: "", confidence: "measured", source: "", ...changes };
}

export function estimate(changes: Partial<SettingEstimate> = {}): SettingEstimate {
  return {
    latency: { value: 1, low: 1, high: 1, origin: "estimated" },
    basis: "calibrated",
    bound: "compute",
    parts: {},
    placement: {},
    switches: 0,
    kernel_s: [],
    kernel_unit: [],
    kernel_bound: [],
    ...changes,
  };
}

export function settingPlan(changes: Partial<SettingPlan> = {}): SettingPlan {
  return { compute_units: "all", total_ms: 0, switches: 0, backend: [], detour_ms: {}, estimate: null, ...changes };
}

/** The backends of `plan`, by their index. */
export const BACKEND = { ane: 0, mps: 1, bnns: 2, unknown: -1 } as const;

/**
 * A plan with the backends `ane`, `mps` and `bnns` for so many columns, all of them supported everywhere,
 * at 1, 2 and 4 ms. Without settings of its own it has one, `all`, that runs everything on the Neural Engine.
 */
export function plan(columns: number, changes: Partial<DevicePlan> = {}): DevicePlan {
  const filled = <T>(value: T): T[] => new Array<T>(columns).fill(value);
  const none = Array.from({ length: columns }, () => []);
  return {
    device: "M9",
    chip: "m9",
    os: "macOS 99",
    cost_model: "test",
    notes: [],
    units: ["cpu", "gpu", "neural_engine"],
    backends: { ane: "neural_engine", mps: "gpu", bnns: "cpu" },
    inserted: [],
    supported: { cpu: filled(1), gpu: filled(1), neural_engine: filled(1) },
    cost_ms: { ane: filled(1), mps: filled(2), bnns: filled(4) },
    reasons: [],
    why: none,
    advice: none,
    settings: [settingPlan({ backend: filled(BACKEND.ane) })],
    ...changes,
  };
}

/** The placement of a table's operations under one setting of a plan. */
export const placementOf = (table: OpTable, devicePlan: DevicePlan, setting: Setting = "all"): Placement =>
  new Placement(devicePlan, setting, table.id);

/** Rows of one function, one for each `[type, name]`. */
export function rowsOf(ops: readonly (readonly [type: string, name: string])[]): Row[] {
  const ids = ops.map((_, index) => `main/${index}`);
  return buildRows(opTable(ids, { type: ops.map(([type]) => type), name: ops.map(([, name]) => name) }), [], null).all;
}
