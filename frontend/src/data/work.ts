import { kernelLabel } from "./profile";
import type { ComputeUnit, Estimate, Group, Kernel, OpTable } from "./schema";

/** Work with a known time: a point of the roofline. Times of groups are never split among operations. */
export interface Timed {
  label: string;
  /** The ids of its operations; the first one represents it. */
  ids: string[];
  seconds: number;
  flops: number;
  bytes: number;
  unit: ComputeUnit | null;
}

/** Floating-point operations per byte. */
export const intensity = (timed: Timed): number => timed.flops / timed.bytes;
/** Floating-point operations per second. */
export const rate = (timed: Timed): number => timed.flops / timed.seconds;

/** The measured groups. */
export const measuredWork = (table: OpTable, groups: readonly Group[]): Timed[] =>
  groups.flatMap((group) => timed(table, group.ops, group.label, group.wall_s, null));

/** The kernels that the estimate assumes. */
export const estimatedWork = (table: OpTable, kernels: readonly Kernel[], estimate: Estimate): Timed[] =>
  kernels.flatMap((kernel, index) => {
    const unit = estimate.units[estimate.kernel_unit[index] ?? -1] ?? null;
    return timed(table, kernel.ops, kernelLabel(table.type, kernel), estimate.kernel_s[index] ?? 0, unit);
  });

function timed(table: OpTable, members: readonly number[], label: string, seconds: number, unit: ComputeUnit | null): Timed[] {
  let [flops, bytes] = [0, 0];
  for (const index of members) {
    flops += table.flops[index] ?? 0;
    bytes += (table.read_bytes[index] ?? 0) + (table.written_bytes[index] ?? 0);
  }
  if (flops <= 0 || bytes <= 0 || seconds <= 0) return [];
  return [{ label, ids: members.map((index) => table.id[index] ?? ""), seconds, flops, bytes, unit }];
}
