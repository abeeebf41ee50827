import type { Placement } from "./placement";
import { kernelLabel } from "./profile";
import type { Row } from "./rows";
import type { ComputeUnit, Estimate, Group, Kernel, OpTable, Origin } from "./schema";
import { UNIT_NAMES } from "./words";

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
  unit: ComputeUnit | "measured";
  spans: Span[];
}

/** The sequence of events in one prediction. */
export interface Timeline {
  origin: Origin;
  lanes: Lane[];
  seconds: number;
  /** The changes of unit. */
  switches: { at: number; from: ComputeUnit; to: ComputeUnit }[];
  /** A note on what the spans do not include. */
  omitted: string;
}

/** The measured groups in the order of execution. */
export function measuredTimeline(table: OpTable, groups: readonly Group[]): Timeline {
  let now = 0;
  const spans = groups.map((group) => {
    const span = { id: table.id[group.ops[0] ?? -1] ?? "", label: group.label, start: now, seconds: group.wall_s };
    now += group.wall_s;
    return span;
  });
  return {
    origin: "measured",
    lanes: [{ title: "Measured", unit: "measured", spans }],
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

/** Estimated kernel times in sequence; null where the estimate has none. */
export function estimatedTimeline(table: OpTable, kernels: readonly Kernel[], estimate: Estimate): Timeline | null {
  if (estimate.kernel_s.length === 0) return null;
  const steps = kernels.flatMap((kernel, index) => {
    const unit = estimate.units[estimate.kernel_unit[index] ?? -1];
    const seconds = estimate.kernel_s[index] ?? 0;
    return unit && seconds > 0 ? [{ id: table.id[kernel.ops[0] ?? -1] ?? "", label: kernelLabel(table.type, kernel), unit, seconds }] : [];
  });
  const omitted = "The estimate's total also includes dispatch, conversions and changes of unit.";
  return { ...inLanes(steps, emptyLanes(estimate.units)), origin: "estimated", omitted };
}

function emptyLanes(units: readonly ComputeUnit[]): Map<ComputeUnit, Lane> {
  const order: ComputeUnit[] = ["neural_engine", "gpu", "cpu"];
  return new Map(order.filter((unit) => units.includes(unit)).map((unit) => [unit, { title: UNIT_NAMES[unit], unit, spans: [] }]));
}

function inLanes(
  steps: readonly { id: string; label: string; unit: ComputeUnit; seconds: number }[],
  lanes: Map<ComputeUnit, Lane>,
): Pick<Timeline, "lanes" | "seconds" | "switches"> {
  const switches: Timeline["switches"] = [];
  let now = 0;
  let last: ComputeUnit | null = null;
  for (const { id, label, unit, seconds } of steps) {
    if (last && last !== unit) switches.push({ at: now, from: last, to: unit });
    lanes.get(unit)?.spans.push({ id, label, start: now, seconds });
    now += seconds;
    last = unit;
  }
  return { lanes: [...lanes.values()], seconds: now, switches };
}
