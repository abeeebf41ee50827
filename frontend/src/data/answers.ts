/** What the first screen answers, from the figures of a report. */
import { plural } from "../format";
import type { Report } from "../report";
import type { ComputeUnit, Measurement, OpTable } from "./schema";

/** What limits a figure, shown on its card. */
export interface Badge {
  text: string;
  /** The longer explanation. */
  title: string;
}

/** What limits a measurement. */
export function measurementBadges(one: Measurement): Badge[] {
  const badges: Badge[] = [];
  const found = (id: string) => one.findings.find((finding) => finding.id === id);
  const made = found("random-weights");
  if (made) badges.push({ text: "synthetic weights", title: made.text });
  for (const stage of one.stages.filter((stage) => stage.absent))
    badges.push({ text: `${stage.name} not run`, title: `The stage ${stage.name} was not run, because ${stage.absent}` });
  const layers = one.findings.filter((finding) => finding.id === "layer-not-run");
  if (layers.length > 0)
    badges.push({ text: `${plural(layers.length, "layer")} not run`, title: layers.map((layer) => layer.text).join("\n") });
  if (one.partial) badges.push({ text: "partial", title: one.partial.text });
  return badges;
}

/** Whether the measured predictions include the work of the whole model. */
export const isWhole = (one: Measurement): boolean =>
  one.stages.every((stage) => !stage.absent) && one.findings.every((finding) => finding.id !== "layer-not-run");

/** A part of the time of a prediction. */
export interface TimePart {
  /** The types of its operations: `conv + relu`. */
  label: string;
  /** What the author calls it. */
  name: string;
  /** The ids of its operations; the first one represents it. */
  ids: string[];
  seconds: number;
  /** How many equal ones it sums, such as those of equal blocks. */
  times: number;
}

/** Where the measured time of a prediction goes. */
export interface Spending {
  /** The whole that the parts are shares of. */
  totalSeconds: number;
  /** The most expensive groups of operations, the most expensive first. */
  dearest: TimePart[];
  /** False where the engine's profiler slows predictions so much that it decides the shares. */
  hasShares: boolean;
}

const DEAREST = 3;

/** The measured time by groups of operations; null where nothing is known. */
export function spending({ table, groups }: Pick<Report, "table" | "groups">): Spending | null {
  const dearest = joined(groups.map((group) => part(table, group.ops, group.label, group.wall_s)));
  const totalSeconds = groups.reduce((sum, group) => sum + group.wall_s, 0);
  if (dearest.length === 0) return null;
  return { totalSeconds, dearest, hasShares: groups.every((group) => group.share !== null) };
}

/** A group under the name of the layer, or else of the first operation, as on the terminal. */
function part(table: OpTable, ops: readonly number[], label: string, seconds: number): TimePart {
  const named = ops.find((op) => table.layer[op]) ?? ops[0] ?? -1;
  const name = table.layer[named] || table.name[named] || "";
  return { label, name, ids: ops.map((op) => table.id[op] ?? ""), seconds, times: 1 };
}

/** Equal operations on equal tensors take equal times: each of their kinds as one part, the most expensive first. */
function joined(parts: readonly TimePart[]): TimePart[] {
  const found = new Map<string, TimePart>();
  for (const one of parts.filter((one) => one.seconds > 0)) {
    const key = `${one.label} ${one.seconds.toPrecision(9)}`;
    const before = found.get(key);
    if (!before) found.set(key, { ...one, ids: [...one.ids] });
    else {
      before.ids.push(...one.ids);
      before.seconds += one.seconds;
      before.times += one.times;
    }
  }
  return [...found.values()].sort((a, b) => b.seconds - a.seconds).slice(0, DEAREST);
}

const ORDER = ["neural_engine", "gpu", "cpu"] as const;

/** The share of each unit in the estimated time of the operations. */
export const timeShares = (shares: Partial<Record<ComputeUnit, number>>): { unit: ComputeUnit; part: number }[] =>
  ORDER.map((unit) => ({ unit, part: shares[unit] ?? 0 })).filter((one) => one.part > 0);
