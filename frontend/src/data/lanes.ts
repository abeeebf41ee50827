import type { Placement } from "./placement";
import type { Group, OpTable, Origin, Unit } from "./profile";
import type { Row } from "./rows";

/** A time span in a lane. */
export interface Span {
  /** The operation that a click selects. */
  id: string;
  label: string;
  start: number;
  seconds: number;
}

export interface Lane {
  title: string;
  unit: Unit | "measured";
  spans: Span[];
}

/** The sequence of events in one prediction. */
export interface Timeline {
  origin: Origin;
  lanes: Lane[];
  seconds: number;
  /** The changes of unit. */
  switches: { at: number; from: Unit; to: Unit }[];
  /** A note on what the spans do not include. */
  omitted: string;
}

/** The measured groups in the order of execution. */
export function measuredTimeline(groups: readonly Group[], host: string): Timeline {
  let now = 0;
  const spans = groups.map((group) => {
    const span = { id: group.op_ids[0] ?? "", label: group.label, start: now, seconds: group.wall_s };
    now += group.wall_s;
    return span;
  });
  return {
    origin: "measured",
    lanes: [{ title: host, unit: "measured", spans }],
    seconds: now,
    switches: [],
    omitted: "Groups are in the order of execution, each with the median of its times. Gaps between them are not shown.",
  };
}

/** Planned costs in sequence, each in the lane of its planned unit. */
export function plannedTimeline(rows: readonly Row[], placement: Placement): Timeline {
  const lanes = emptyLanes(placement.plan.units);
  const steps = rows.flatMap((row) => {
    const unit = row.column < 0 ? null : placement.unit(row.column);
    // Nested operations are planned separately; the cost of their owner includes them.
    const cost = row.depth === 0 && unit ? placement.costMs(row.column) : null;
    return unit && cost ? [{ id: row.id, label: row.type, unit, seconds: cost / 1e3 }] : [];
  });
  const omitted = "The plan's total also includes launches and changes of unit. Operations nested in loops and branches are left out.";
  return { ...inLanes(steps, lanes), origin: "planned", omitted };
}

/** Estimated kernel times in sequence. */
export function estimatedTimeline(table: OpTable, placement: Placement): Timeline | null {
  const estimate = placement.setting.estimate;
  if (!estimate || !table.kernel) return null;
  const first = new Map<number, number>();
  const types = new Map<number, string[]>();
  table.kernel.forEach((kernel, index) => {
    if (kernel === null) return;
    if (!first.has(kernel)) first.set(kernel, index);
    types.set(kernel, [...(types.get(kernel) ?? []), table.type[index] ?? ""]);
  });
  const steps = [...first].flatMap(([kernel, index]) => {
    const unit = placement.plan.units[estimate.kernel_unit[kernel] ?? -1];
    const seconds = estimate.kernel_s[kernel] ?? 0;
    return unit && seconds > 0 ? [{ id: table.id[index] ?? "", label: (types.get(kernel) ?? []).join(" + "), unit, seconds }] : [];
  });
  const omitted = "The estimate's total also includes dispatch, conversions and changes of unit.";
  return { ...inLanes(steps, emptyLanes(placement.plan.units)), origin: "estimated", omitted };
}

const TITLES: Record<Unit, string> = { cpu: "CPU", gpu: "GPU", neural_engine: "Neural Engine" };

function emptyLanes(units: readonly Unit[]): Map<Unit, Lane> {
  const order: Unit[] = ["neural_engine", "gpu", "cpu"];
  return new Map(order.filter((unit) => units.includes(unit)).map((unit) => [unit, { title: TITLES[unit], unit, spans: [] }]));
}

function inLanes(
  steps: readonly { id: string; label: string; unit: Unit; seconds: number }[],
  lanes: Map<Unit, Lane>,
): Pick<Timeline, "lanes" | "seconds" | "switches"> {
  const switches: Timeline["switches"] = [];
  let now = 0;
  let last: Unit | null = null;
  for (const { id, label, unit, seconds } of steps) {
    if (last && last !== unit) switches.push({ at: now, from: last, to: unit });
    lanes.get(unit)?.spans.push({ id, label, start: now, seconds });
    now += seconds;
    last = unit;
  }
  return { lanes: [...lanes.values()], seconds: now, switches };
}
