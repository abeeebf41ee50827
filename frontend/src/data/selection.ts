/** Sums over operations that are selected. */
import type { Costs } from "./critical";
import type { Row } from "./rows";
import type { OpTable } from "./schema";

export interface Sum {
  ops: number;
  /** Null where none of them has a time. Groups are never split: each that an operation is part of counts once, as a whole. */
  seconds: number | null;
  groups: number;
  flops: number;
  /** Bytes that they read and write. */
  bytes: number;
  /** False where FLOPs and bytes of some are not known, or lower bounds. */
  isComplete: boolean;
}

export function sumOf(rows: Iterable<Row>, table: OpTable, costs: Costs | null): Sum {
  const found: Sum = { ops: 0, seconds: null, groups: 0, flops: 0, bytes: 0, isComplete: true };
  const groups = new Set<number>();
  for (const row of rows) {
    found.ops += 1;
    for (const group of costs?.groupsOf.get(row) ?? []) groups.add(group);
    if (row.op < 0) continue;
    const flops = table.flops[row.op];
    found.flops += flops ?? 0;
    found.bytes += (table.read_bytes[row.op] ?? 0) + (table.written_bytes[row.op] ?? 0);
    found.isComplete &&= flops != null && (table.work_is_complete[row.op] ?? true);
  }
  if (groups.size > 0) found.seconds = [...groups].reduce((sum, one) => sum + (costs?.seconds[one] ?? 0), 0);
  return { ...found, groups: groups.size };
}
