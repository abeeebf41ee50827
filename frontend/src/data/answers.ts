/** What the first screen answers, from the figures of a report. */
import { bytes, duration, fileName, plural } from "../format";
import type { Report } from "../report";
import { COST_RULE, type Placement } from "./placement";
import { kernelLabel } from "./profile";
import type { Row, Rows } from "./rows";
import { savingOn } from "./savings";
import type { Answer, ComputeUnit, Estimate, Measurement, OpTable, Origin, Proposal } from "./schema";
import { ALLOWED } from "./words";

/** What limits a figure, shown on its card. */
export interface Badge {
  text: string;
  /** The longer explanation. */
  title: string;
}

/** What limits an estimate. */
export function estimateBadges(estimate: Estimate): Badge[] {
  const badges: Badge[] = [];
  if (estimate.own) {
    const number = plural(estimate.own.measurements, "measurement");
    badges.push({ text: "your calibration", title: `Calibrated on ${number} of your own` });
  } else if (estimate.basis === "extrapolated")
    badges.push({ text: "extrapolated", title: "No published latency of this chip and unit went into it" });
  if (estimate.left_out.length > 0)
    badges.push({ text: "incomplete", title: `Does not include ${estimate.left_out.join(", ")}: nothing is known of their latency` });
  return badges;
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
  unit: ComputeUnit | null;
  seconds: number;
  /** How many equal ones it sums, such as those of equal blocks. */
  times: number;
}

/** Where the time of a prediction goes. */
export interface Spending {
  origin: Origin;
  /** The whole that the parts are shares of. */
  totalSeconds: number;
  /** The most expensive groups of operations, the most expensive first. */
  dearest: TimePart[];
  /** False where the engine's profiler slows predictions so much that it decides the shares. */
  hasShares: boolean;
}

const DEAREST = 3;

/** The estimated time of the chosen device; else the measured time; null where nothing is known. */
export function spending({ table, estimate, kernels, groups }: Pick<Report, "table" | "estimate" | "kernels" | "groups">): Spending | null {
  if (estimate?.kernel_s.length) {
    const parts = kernels.map((kernel, index) => ({
      ...part(table, kernel.ops, kernelLabel(table.type, kernel), estimate.kernel_s[index] ?? 0),
      unit: estimate.units[estimate.kernel_unit[index] ?? -1] ?? null,
    }));
    return { origin: "estimated", totalSeconds: estimate.latency.value, dearest: joined(parts), hasShares: true };
  }
  const dearest = joined(groups.map((group) => part(table, group.ops, group.label, group.wall_s)));
  const totalSeconds = groups.reduce((sum, group) => sum + group.wall_s, 0);
  if (dearest.length === 0) return null;
  return { origin: "measured", totalSeconds, dearest, hasShares: groups.every((group) => group.share !== null) };
}

/** A group under the name of the layer, or else of the first operation, as on the terminal. */
function part(table: OpTable, ops: readonly number[], label: string, seconds: number): TimePart {
  const named = ops.find((op) => table.layer[op]) ?? ops[0] ?? -1;
  const name = table.layer[named] || table.name[named] || "";
  return { label, name, ids: ops.map((op) => table.id[op] ?? ""), unit: null, seconds, times: 1 };
}

/** Equal operations on equal tensors take equal times: each of their kinds as one part, the most expensive first. */
function joined(parts: readonly TimePart[]): TimePart[] {
  const found = new Map<string, TimePart>();
  for (const one of parts.filter((one) => one.seconds > 0)) {
    const key = `${one.label} ${one.unit} ${one.seconds.toPrecision(9)}`;
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
export const timeShares = ({ placement }: Pick<Estimate, "placement">): { unit: ComputeUnit; part: number }[] =>
  ORDER.map((unit) => ({ unit, part: placement[unit] ?? 0 })).filter((one) => one.part > 0);

/** A change that is worth making. */
export interface Change {
  /** What to do; the reason that it removes, where no remedy is known. */
  text: string;
  /** The time before and after it, or what it saves. */
  saving: string;
  /** How sure the saving is. */
  certainty: string;
  /** The ids of its operations. */
  ids: readonly string[];
  /** The saving as a part of the largest that is listed. */
  part: number;
  /** The line of code to change, and the command that tries it. */
  lines: string[];
}

const CHANGES = 3;

/** What the answer in a profile proposes for its device. */
export function proposed({ proposals, together }: Answer, path: string): Change[] {
  const every = together ? [...proposals, together] : proposals;
  const gain = ({ before_s: before, after }: Proposal) => (after ? before - after.value : 0);
  const most = Math.max(...every.map(gain));
  return every.map((one) => ({
    text: one.text,
    saving: one.after ? `${duration(one.before_s)} → ${duration(one.after.value)}` : `${bytes(one.saved_bytes)} less`,
    certainty: one.is_checked ? one.certainty : `${one.certainty}, not checked`,
    ids: [],
    part: most > 0 ? gain(one) / most : 0,
    lines: [one.code, one.command.replace("MODEL", fileName(path))].filter(Boolean),
  }));
}

/** Without an answer for the device: what findings and reasons save, where the interval of the estimate leaves out 0. */
export function changes({ placement, rows, findings }: Pick<Report, "rows" | "findings"> & { placement: Placement }): Change[] {
  const idOf = new Map(rows.all.filter((row) => row.column >= 0).map((row) => [row.column, row.id]));
  const idsOf = (columns: readonly number[]) => columns.map((column) => idOf.get(column)).filter((id) => id !== undefined);
  const saved = [
    ...findings.map((finding) => ({
      text: finding.hint || finding.text,
      figure: savingOn(finding, placement)?.saved_s,
      ids: finding.ops,
    })),
    ...placement.setting.what_ifs
      .filter((one) => one.hypothesis === "without")
      .map((one) => ({ text: one.fix || one.reason, figure: one.saved_s, ids: idsOf(one.ops) })),
  ];
  const found = saved.flatMap(({ figure, ...one }) => (figure && figure.low > 0 ? [{ ...one, figure }] : []));
  found.sort((a, b) => b.figure.value - a.figure.value);
  return found.slice(0, CHANGES).map(({ text, figure, ids }) => ({
    ...{ text, ids, certainty: "likely", lines: [] },
    saving: `saves ${duration(figure.value)} (${duration(figure.low)} – ${duration(figure.high)})`,
    part: figure.value / (found[0]?.figure.value ?? 1),
  }));
}

/** Why operations do not run on the Neural Engine. */
export interface Elsewhere {
  /** Number of operations that run on other units. */
  count: number;
  /** The first reason of each of them; the most frequent first. */
  reasons: { rule: string; text: string; ids: string[] }[];
  /** The ids of those that no reason is known for. */
  unexplained: string[];
  /** Their types. */
  types: string[];
}

/** Why operations do not run on the Neural Engine; null where the setting forbids it. */
export function elsewhere(placement: Placement, rows: Rows): Elsewhere | null {
  if (!ALLOWED[placement.name].includes("neural_engine")) return null;
  const away = rows.all.filter((row) => row.column >= 0 && placement.unit(row.column) !== "neural_engine");
  const found = new Map<string, Elsewhere["reasons"][number]>();
  const unexplained: Row[] = [];
  for (const row of away) {
    const reason = placement.obstacles(row.column).find((one) => one.unit === "neural_engine");
    if (!reason) {
      unexplained.push(row);
      continue;
    }
    const key = reason.rule === COST_RULE ? reason.text : reason.rule;
    const group = found.get(key);
    if (group) group.ids.push(row.id);
    else found.set(key, { rule: reason.rule, text: reason.text, ids: [row.id] });
  }
  return {
    count: away.length,
    reasons: [...found.values()].sort((a, b) => b.ids.length - a.ids.length),
    unexplained: unexplained.map((row) => row.id),
    types: [...new Set(unexplained.map((row) => row.type))],
  };
}
