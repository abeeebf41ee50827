/** What the first screen answers, from the figures of a report. */
import { plural } from "../format";
import type { Report } from "../report";
import type { Answer, ComputeUnit, Hazard, Measurement } from "./schema";

/** The hazards that a prediction meets, the gravest first, as `is_met` of `planning/answer/hazards.py`. */
export const metHazards = ({ hazards }: Pick<Answer, "hazards">): Hazard[] =>
  hazards.filter(
    ({ is_certain: isCertain, confidence, units, kind }) =>
      isCertain && confidence !== "anecdotal" && (units.length === 0 || !["refused", "silent fallback"].includes(kind)),
  );

/** The gravest one of some units, which belongs to a setting: those of every unit belong to the model. */
export const settingHazard = (answer: Pick<Answer, "hazards">): Hazard | undefined =>
  metHazards(answer).find((one) => one.units.length > 0);

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

/** A part of the measured time of a prediction. */
export interface TimePart {
  /** The types of its operations: `conv + relu`. */
  label: string;
  /** What the author calls it. */
  name: string;
  /** The ids of its operations; the first one represents it. */
  ids: string[];
  seconds: number;
  /** Its share of the sum of all groups. */
  share: number;
  /** How many equal ones it sums, such as those of equal blocks. */
  times: number;
}

/** The measured time by groups of operations, the most expensive first; all together are the whole. Null where nothing is known. */
export function spending({ table, groups }: Pick<Report, "table" | "groups">): TimePart[] | null {
  const total = groups.reduce((sum, group) => sum + group.wall_s, 0);
  const found = new Map<string, TimePart>();
  for (const { ops, label, wall_s: seconds } of groups.filter((group) => group.wall_s > 0)) {
    // Equal operations on equal tensors take equal times.
    const key = `${label} ${seconds.toPrecision(9)}`;
    const named = ops.find((op) => table.layer[op]) ?? ops[0] ?? -1;
    const name = table.layer[named] || table.name[named] || "";
    const part = found.get(key) ?? { label, name, ids: [], seconds: 0, share: 0, times: 0 };
    part.ids.push(...ops.map((op) => table.id[op] ?? ""));
    part.seconds += seconds;
    part.share += seconds / total;
    part.times += 1;
    found.set(key, part);
  }
  const parts = [...found.values()].sort((a, b) => b.seconds - a.seconds);
  return parts.length > 0 ? parts : null;
}

const ORDER = ["neural_engine", "gpu", "cpu"] as const;

/** The share of each unit in the estimated time of the operations. */
export const timeShares = (shares: Partial<Record<ComputeUnit, number>>): { unit: ComputeUnit; part: number }[] =>
  ORDER.map((unit) => ({ unit, part: shares[unit] ?? 0 })).filter((one) => one.part > 0);
