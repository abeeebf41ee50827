import type { Placement } from "./placement";
import { isOn, type Target } from "./profile";
import type { Row, Rows } from "./rows";
import type { Estimate, Group, Kernel, Measurement, Origin } from "./schema";

/** Times of operations: of each alone, or of groups that are never split. */
export interface Costs {
  origin: Origin;
  /** The groups that each operation is part of; several for one with nested operations. */
  groupsOf: ReadonlyMap<Row, readonly number[]>;
  /** The first operation of each group; undefined where it is not in the graph. */
  firstOf: readonly (Row | undefined)[];
  /** Seconds of each group. */
  seconds: readonly number[];
  /** What shares are of: the latency of an estimate, which includes launches, or the sum of groups. */
  whole: number;
}

/** Planned costs; those of nested operations are part of their owners'. */
export function plannedCosts(rows: Rows, placement: Placement): Costs {
  const [groupsOf, seconds]: [Map<Row, number[]>, number[]] = [new Map(), []];
  const firstOf: Row[] = [];
  for (const row of rows.all) {
    const cost = row.column >= 0 && row.depth === 0 ? placement.costMs(row.column) : null;
    if (cost === null) continue;
    groupsOf.set(row, [seconds.push(cost / 1e3) - 1]);
    firstOf.push(row);
  }
  return { origin: "planned", groupsOf, firstOf, seconds, whole: sum(seconds) };
}

/** Estimated times of kernels. */
export function estimatedCosts(rows: Rows, kernels: readonly Kernel[], estimate: Estimate): Costs {
  return { origin: "estimated", ...owners(rows, kernels), seconds: estimate.kernel_s, whole: estimate.latency.value };
}

/** Measured times of groups. */
export function measuredCosts(rows: Rows, groups: readonly Group[]): Costs {
  const seconds = groups.map((group) => group.wall_s);
  return { origin: "measured", ...owners(rows, groups), seconds, whole: sum(seconds) };
}

const sum = (values: readonly number[]): number => values.reduce((total, one) => total + one, 0);

/** The times that views show: measured on the device, else estimated for it, else measured elsewhere; null where there are none. */
export function timesOf(
  rows: Rows,
  kernels: readonly Kernel[],
  measured: Measurement | null,
  target: Target | null,
  estimate: Estimate | null,
): Costs | null {
  const isMeasured = !!measured?.groups.length;
  if (estimate?.kernel_s.length && !(isMeasured && target && isOn(measured, target))) return estimatedCosts(rows, kernels, estimate);
  return isMeasured ? measuredCosts(rows, measured.groups) : null;
}

/** Groups count for the operations that contain theirs. */
function owners(rows: Rows, groups: readonly { ops: readonly number[] }[]): Pick<Costs, "groupsOf" | "firstOf"> {
  const groupsOf = new Map<Row, number[]>();
  const firstOf = groups.map((group, index) => {
    const inside = group.ops.map((op) => outermost(rows.ops[op]));
    for (const row of new Set(inside)) if (row) groupsOf.set(row, [...(groupsOf.get(row) ?? []), index]);
    return inside[0];
  });
  return { groupsOf, firstOf };
}

/** The operation itself, or the one that contains it and is not nested. */
export function outermost(row: Row | undefined): Row | undefined {
  let found = row;
  while (found?.parent) found = found.parent;
  return found;
}

/** The longest chain of operations, each of which waits for the one before. */
export interface CriticalPath {
  rows: Row[];
  /** The time of the groups along it; each counts once. */
  seconds: number;
}

/** Finds the path with the longest time through operations in the program's order; empty where nothing has a time. */
export function criticalPath(rows: readonly Row[], inputsOf: (row: Row) => Row[], costs: Costs): CriticalPath {
  const before = new Map<Row, { seconds: number; from: Row | null }>();
  const until = (row: Row | null): number => (row && before.get(row)?.seconds) || 0;
  let last: Row | null = null;
  for (const row of rows) {
    const known = inputsOf(row).filter((input) => before.has(input));
    const from = known.reduce<Row | null>((best, input) => (best === null || until(input) > until(best) ? input : best), null);
    const entered = (from && costs.groupsOf.get(from)) || [];
    const groups = (costs.groupsOf.get(row) ?? []).filter((group) => !entered.includes(group));
    before.set(row, { seconds: until(from) + secondsOf(groups, costs), from });
    if (until(row) > until(last)) last = row;
  }
  const path: Row[] = [];
  for (let row = last; row; row = before.get(row)?.from ?? null) path.push(row);
  const groups = new Set(path.flatMap((row) => costs.groupsOf.get(row) ?? []));
  return { rows: path.reverse(), seconds: secondsOf([...groups], costs) };
}

const secondsOf = (groups: readonly number[], costs: Costs): number => groups.reduce((sum, one) => sum + (costs.seconds[one] ?? 0), 0);
