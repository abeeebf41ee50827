import type { Placement } from "./placement";
import type { Group, OpTable, Unit } from "./profile";

/** Work with a known time: a point of the roofline. Times of groups are never split among operations. */
export interface Timed {
  label: string;
  /** The ids of its operations; the first one represents it. */
  ids: string[];
  seconds: number;
  flops: number;
  bytes: number;
  unit: Unit | null;
}

/** Floating-point operations per byte. */
export const intensity = (timed: Timed): number => timed.flops / timed.bytes;
/** Floating-point operations per second. */
export const rate = (timed: Timed): number => timed.flops / timed.seconds;

/** The measured groups. */
export function measuredWork(table: OpTable, groups: readonly Group[]): Timed[] {
  const column = new Map(table.id.map((id, index) => [id, index]));
  return groups.flatMap((group) => {
    const members = group.op_ids.map((id) => column.get(id) ?? -1);
    return timed(table, members, group.label, group.wall_s, null);
  });
}

/** The kernels that the estimate assumes. */
export function estimatedWork(table: OpTable, placement: Placement): Timed[] {
  const estimate = placement.setting.estimate;
  if (!estimate || !table.kernel) return [];
  const members = new Map<number, number[]>();
  table.kernel.forEach((kernel, index) => {
    if (kernel === null) return;
    const list = members.get(kernel);
    if (list) list.push(index);
    else members.set(kernel, [index]);
  });
  return [...members].flatMap(([kernel, columns]) => {
    const unit = placement.plan.units[estimate.kernel_unit[kernel] ?? -1] ?? null;
    const types = columns.map((index) => table.type[index] ?? "");
    return timed(table, columns, types.join(" + "), estimate.kernel_s[kernel] ?? 0, unit);
  });
}

function timed(table: OpTable, members: number[], label: string, seconds: number, unit: Unit | null): Timed[] {
  let [flops, bytes] = [0, 0];
  for (const index of members) {
    flops += table.flops[index] ?? 0;
    bytes += (table.read_bytes[index] ?? 0) + (table.written_bytes[index] ?? 0);
  }
  if (flops <= 0 || bytes <= 0 || seconds <= 0) return [];
  return [{ label, ids: members.map((index) => table.id[index] ?? ""), seconds, flops, bytes, unit }];
}
