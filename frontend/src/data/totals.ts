import type { Placement } from "./placement";
import type { Rows } from "./rows";
import type { ComputeUnit, Reason } from "./schema";

/** The operations and the cost that a plan assigns to a unit. */
export interface UnitShare {
  unit: ComputeUnit | null;
  ops: number;
  costMs: number;
}

const UNITS: readonly (ComputeUnit | null)[] = ["neural_engine", "gpu", "cpu", null];

/** Operations and planned cost by unit; null counts operations without a known unit. */
export function unitShares(placement: Placement, columns: Iterable<number>): UnitShare[] {
  const shares = new Map<ComputeUnit | null, UnitShare>(UNITS.map((unit) => [unit, { unit, ops: 0, costMs: 0 }]));
  for (const column of columns) {
    const share = shares.get(placement.unit(column));
    if (!share) continue;
    share.ops += 1;
    share.costMs += placement.costMs(column) ?? 0;
  }
  return [...shares.values()].filter((share) => share.ops > 0);
}

/** The columns of the rows that the plan covers. */
export const plannedColumns = (rows: Rows): number[] => rows.all.filter((row) => row.column >= 0).map((row) => row.column);

export interface TypeTotal {
  type: string;
  ops: number;
  columns: number[];
  flops: number;
  /** False where the FLOPs of an operation are unknown or a lower bound. */
  isComplete: boolean;
  weightBytes: number;
  costMs: number;
}

/** Sums by type of operation, ordered by planned cost, then FLOPs, largest first. */
export function byType(
  rows: Rows,
  table: { flops: (number | null)[]; weight_bytes: (number | null)[]; work_is_complete: boolean[] },
  placement: Placement | null,
): TypeTotal[] {
  const totals = new Map<string, TypeTotal>();
  for (const row of rows.all) {
    if (row.kind === "engine") continue;
    const total = totals.get(row.type) ?? { type: row.type, ops: 0, columns: [], flops: 0, isComplete: true, weightBytes: 0, costMs: 0 };
    totals.set(row.type, total);
    total.ops += 1;
    if (row.op >= 0) {
      const flops = table.flops[row.op];
      total.flops += flops ?? 0;
      total.isComplete &&= flops != null && (table.work_is_complete[row.op] ?? true);
      total.weightBytes += table.weight_bytes[row.op] ?? 0;
    }
    if (row.column >= 0) {
      total.columns.push(row.column);
      total.costMs += placement?.costMs(row.column) ?? 0;
    }
  }
  return [...totals.values()].sort((a, b) => b.costMs - a.costMs || b.flops - a.flops || b.ops - a.ops);
}

/** A rule that keeps operations from a unit, and their planned cost where they run. */
export interface Obstacle {
  reason: Reason;
  /** Ids of the operations, in the program's order. */
  ids: string[];
  costMs: number;
  /** Its share of the planned cost of all operations. */
  share: number;
}

/** The rules that keep operations from allowed units, costliest first; one entry per unit, rule and remedy. */
export function obstacles(placement: Placement, rows: Rows): Obstacle[] {
  const found = new Map<string, Obstacle>();
  let total = 0;
  for (const row of rows.all) {
    if (row.column < 0) continue;
    const cost = placement.costMs(row.column) ?? 0;
    total += cost;
    for (const reason of placement.rules(row.column)) {
      const key = `${reason.unit} ${reason.rule} ${reason.fix}`;
      const obstacle = found.get(key) ?? { reason, ids: [], costMs: 0, share: 0 };
      found.set(key, obstacle);
      if (obstacle.ids.at(-1) === row.id) continue;
      obstacle.ids.push(row.id);
      obstacle.costMs += cost;
    }
  }
  const all = [...found.values()];
  for (const one of all) one.share = total ? one.costMs / total : 0;
  return all.sort((a, b) => b.costMs - a.costMs || b.ids.length - a.ids.length);
}
