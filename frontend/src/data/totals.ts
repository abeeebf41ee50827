import type { Costs } from "./critical";
import type { Placement } from "./placement";
import type { Row, Rows } from "./rows";
import type { ComputeUnit, Reason, WhatIf } from "./schema";

/** The operations that a plan assigns to a unit. */
interface UnitShare {
  unit: ComputeUnit | null;
  ops: number;
}

const UNITS: readonly (ComputeUnit | null)[] = ["neural_engine", "gpu", "cpu", null];

/** Operations by unit; null counts operations without a known unit. */
export function unitShares(placement: Placement, columns: Iterable<number>): UnitShare[] {
  const shares = new Map<ComputeUnit | null, UnitShare>(UNITS.map((unit) => [unit, { unit, ops: 0 }]));
  for (const column of columns) {
    const share = shares.get(placement.unit(column));
    if (share) share.ops += 1;
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
  /** Seconds of the groups that begin with it; without any times what a plan charges, in milliseconds. */
  amount: number;
  /** The amount on each unit. */
  units: Map<ComputeUnit | null, number>;
}

/** Sums by type of operation, ordered by time, then FLOPs, largest first. The time of a group belongs to the type of its first operation. */
export function byType(
  rows: Rows,
  table: { flops: (number | null)[]; weight_bytes: (number | null)[]; work_is_complete: boolean[] },
  placement: Placement | null,
  times: Costs | null = null,
): TypeTotal[] {
  const amountOf = (row: Row): number => {
    if (!times) return row.column < 0 ? 0 : (placement?.costMs(row.column) ?? 0);
    const own = (times.groupsOf.get(row) ?? []).filter((group) => times.firstOf[group] === row);
    return own.reduce((sum, group) => sum + (times.seconds[group] ?? 0), 0);
  };
  const totals = new Map<string, TypeTotal>();
  for (const row of rows.all) {
    if (row.kind === "engine") continue;
    const none = { ops: 0, flops: 0, isComplete: true, weightBytes: 0, amount: 0 };
    const total: TypeTotal = totals.get(row.type) ?? { type: row.type, ...none, columns: [], units: new Map() };
    totals.set(row.type, total);
    total.ops += 1;
    if (row.op >= 0) {
      const flops = table.flops[row.op];
      total.flops += flops ?? 0;
      total.isComplete &&= flops != null && (table.work_is_complete[row.op] ?? true);
      total.weightBytes += table.weight_bytes[row.op] ?? 0;
    }
    if (row.column >= 0) total.columns.push(row.column);
    const unit = row.column < 0 ? null : (placement?.unit(row.column) ?? null);
    total.amount += amountOf(row);
    total.units.set(unit, (total.units.get(unit) ?? 0) + amountOf(row));
  }
  return [...totals.values()].sort((a, b) => b.amount - a.amount || b.flops - a.flops || b.ops - a.ops);
}

/** A reason that keeps operations from a unit, and what the plan would be without it. */
export interface Obstacle {
  /** What is assumed; null in plans of Core ML, which are not made again. */
  hypothesis: WhatIf["hypothesis"] | null;
  reason: Pick<Reason, "unit" | "rule" | "text" | "fix" | "confidence">;
  /** The function, where the plan has several; else empty. */
  function: string;
  /** Ids of the operations, in the program's order; those of the file first. */
  ids: string[];
  /** What the plan would be without the reason, in a sentence; empty where it was not made again. */
  effect: string;
}

/** Tells an obstacle from the others of a plan. */
export const obstacleKey = ({ hypothesis, reason, function: name }: Obstacle): string =>
  [hypothesis, name, reason.unit, reason.rule, reason.fix].join(" ");

/** What keeps operations from allowed units: the largest planned saving first, or in plans of Core ML that of most operations. */
export function obstacles(placement: Placement, rows: Rows): Obstacle[] {
  return placement.setting.what_ifs.length > 0 ? planned(placement, rows) : grouped(placement, rows);
}

function planned(placement: Placement, rows: Rows): Obstacle[] {
  const byColumn = new Map(rows.all.filter((row) => row.column >= 0).map((row) => [row.column, row]));
  const isSingle = Object.keys(placement.setting.functions).length < 2;
  return placement.setting.what_ifs.map((one) => {
    const found = one.ops.map((column) => byColumn.get(column)).filter((row) => !!row);
    return {
      hypothesis: one.hypothesis,
      reason: { unit: one.unit, rule: one.rule, text: one.reason, fix: one.fix, confidence: one.confidence },
      function: isSingle ? "" : one.function,
      ids: [...found.filter((row) => row.kind === "op"), ...found.filter((row) => row.kind !== "op")].map((row) => row.id),
      effect: one.effect,
    };
  });
}

/** Rules of a plan that was not made again; one entry per unit, rule and remedy. */
function grouped(placement: Placement, rows: Rows): Obstacle[] {
  const found = new Map<string, Obstacle>();
  for (const row of rows.all) {
    if (row.column < 0) continue;
    for (const reason of placement.rules(row.column)) {
      const key = `${reason.unit} ${reason.rule} ${reason.fix}`;
      const obstacle = found.get(key) ?? { hypothesis: null, reason, function: "", ids: [], effect: "" };
      found.set(key, obstacle);
      if (obstacle.ids.at(-1) !== row.id) obstacle.ids.push(row.id);
    }
  }
  return [...found.values()].sort((a, b) => b.ids.length - a.ids.length);
}
