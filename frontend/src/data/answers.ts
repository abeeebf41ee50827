/** What the first screen answers, from the figures of a report. */
import { bytes, cost, duration, plural } from "../format";
import type { Placement } from "./placement";
import { kernelLabel } from "./profile";
import type { Row, Rows } from "./rows";
import { savingOn } from "./savings";
import type {
  Answer,
  Certainty,
  ComputeUnit,
  ComputeUnits,
  Confidence,
  Estimate,
  Finding,
  Group,
  Kernel,
  Measurement,
  OpTable,
  Origin,
  Proposal,
  WhatIf,
} from "./schema";
import { ALLOWED, SETTING_NAMES, UNIT_NAMES } from "./words";

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
  /** Number of groups of operations that have a time. */
  groups: number;
  /** The most expensive groups, the most expensive first. */
  dearest: TimePart[];
  /** Types of operations by their time, the longest first, with the number of operations. */
  types: { label: string; ops: number; seconds: number }[];
  /** Launches, changes of unit and conversions of inputs and outputs; null where they are not known apart. */
  overheadSeconds: number | null;
  /** False where the engine's profiler slows predictions so much that it decides the shares. */
  hasShares: boolean;
}

const DEAREST = 3;

/** The estimated time of the chosen device; else its planned cost; else the measured time; null where nothing is known. */
export function spending(report: {
  table: OpTable;
  rows: Rows;
  kernels: readonly Kernel[];
  estimate: Estimate | null;
  placement: Placement | null;
  groups: readonly Group[];
}): Spending | null {
  const { table, estimate, placement, kernels, groups } = report;
  if (estimate?.kernel_s.length) {
    const parts = kernels.map((kernel, index) => ({
      ...part(table, kernel.ops, kernelLabel(table.type, kernel), estimate.kernel_s[index] ?? 0),
      unit: unitOf(estimate, index),
    }));
    return summed(parts, "estimated", estimate.latency.value);
  }
  if (placement?.totalMs) return summed(plannedParts(report.rows, placement), "planned", placement.totalMs / 1e3);
  if (groups.length === 0) return null;
  const parts = groups.map((group) => part(table, group.ops, group.label, group.wall_s));
  const found = summed(parts, "measured", null);
  return found && { ...found, hasShares: groups.every((group) => group.share !== null) };
}

const unitOf = (estimate: Estimate, kernel: number): ComputeUnit | null => estimate.units[estimate.kernel_unit[kernel] ?? -1] ?? null;

/** What a total contains besides its parts; 0 where only the rounding of the sum differs. */
export const remainder = (total: number, sum: number): number => (total - sum > total * 1e-9 ? total - sum : 0);

/** A group under the name of the layer, or else of the first operation, as on the terminal. */
function part(table: OpTable, ops: readonly number[], label: string, seconds: number): TimePart {
  const named = ops.find((op) => table.layer[op]) ?? ops[0] ?? -1;
  const name = table.layer[named] || table.name[named] || "";
  return { label, name, ids: ops.map((op) => table.id[op] ?? ""), unit: null, seconds, times: 1 };
}

function plannedParts(rows: Rows, placement: Placement): TimePart[] {
  return rows.all
    .filter((row) => row.column >= 0)
    .map((row) => ({
      ...{ label: row.type, name: row.layer || row.name, ids: [row.id] },
      unit: placement.unit(row.column),
      seconds: (placement.costMs(row.column) ?? 0) / 1e3,
      times: 1,
    }));
}

function summed(parts: TimePart[], origin: Origin, total: number | null): Spending | null {
  const timed = parts.filter((one) => one.seconds > 0).sort((a, b) => b.seconds - a.seconds);
  const sum = timed.reduce((seconds, one) => seconds + one.seconds, 0);
  if (sum <= 0) return null;
  const overhead = total === null ? null : remainder(total, sum);
  return {
    ...{ origin, totalSeconds: total ?? sum, groups: timed.length, dearest: joined(timed).slice(0, DEAREST) },
    types: byLabel(timed),
    overheadSeconds: overhead,
    hasShares: true,
  };
}

/** Equal operations on equal tensors take equal times: each of their kinds as one part, the most expensive first. */
function joined(parts: readonly TimePart[]): TimePart[] {
  const found = new Map<string, TimePart>();
  for (const one of parts) {
    const key = `${one.label} ${one.unit} ${one.seconds.toPrecision(9)}`;
    const before = found.get(key);
    if (!before) found.set(key, { ...one, ids: [...one.ids] });
    else {
      before.ids.push(...one.ids);
      before.seconds += one.seconds;
      before.times += one.times;
    }
  }
  return [...found.values()].sort((a, b) => b.seconds - a.seconds);
}

/** Groups by the first of their types, which names what they compute: `conv` for `conv + relu`. */
function byLabel(parts: readonly TimePart[]): Spending["types"] {
  const found = new Map<string, Spending["types"][number]>();
  for (const one of parts) {
    const label = one.label.split(" + ", 1)[0] ?? "";
    const total = found.get(label) ?? { label, ops: 0, seconds: 0 };
    found.set(label, total);
    total.ops += one.ids.length;
    total.seconds += one.seconds;
  }
  return [...found.values()].sort((a, b) => b.seconds - a.seconds);
}

/** Seconds of each unit's kernels in an estimate, and what is left: launches, changes of unit and conversions. */
export function unitSeconds(estimate: Estimate): { unit: ComputeUnit | "overhead"; seconds: number }[] {
  const totals = new Map<ComputeUnit, number>();
  estimate.kernel_s.forEach((seconds, index) => {
    const unit = unitOf(estimate, index);
    if (unit) totals.set(unit, (totals.get(unit) ?? 0) + seconds);
  });
  const parts: { unit: ComputeUnit | "overhead"; seconds: number }[] = (["neural_engine", "gpu", "cpu"] as const)
    .map((unit) => ({ unit, seconds: totals.get(unit) ?? 0 }))
    .filter((one) => one.seconds > 0);
  const rest = remainder(
    estimate.latency.value,
    parts.reduce((sum, one) => sum + one.seconds, 0),
  );
  return rest > 0 && parts.length > 0 ? [...parts, { unit: "overhead", seconds: rest }] : parts;
}

/** A change that is worth making. */
export interface Change {
  /** What to do; the reason that it removes, where no remedy is known. */
  text: string;
  /** The reason that it removes; empty where `text` is the reason. */
  reason: string;
  /** What it saves, as text. */
  saving: string;
  /** Of the saving. */
  origin: Origin;
  /** How its reason is known; null for a change of the setting, which has none. */
  confidence: Confidence | null;
  /** The ids of its operations. */
  ids: string[];
  /** The setting to change to; null for changes of the model. */
  setting: ComputeUnits | null;
  /** The saving as a part of the largest that is listed. */
  part: number;
  /** How sure the saving is, the line of code to change, and the command that tries it; only of proposals of an answer. */
  certainty?: Certainty;
  code?: string;
  command?: string;
}

const CHANGES = 3;

/** What changes are found in. */
export interface Advised {
  /** The plan of the chosen device and setting. */
  placement: Placement;
  rows: Rows;
  findings?: readonly Finding[];
  /** The estimates of the chosen device. */
  estimates?: ReadonlyMap<ComputeUnits, Estimate> | undefined;
}

/** The changes that save most; those whose saving is not known are left out. */
export function changes(report: Advised): Change[] {
  const ranked = [...mended(report), ...planned(report), ...elsewhereFaster(report)].sort((a, b) => b.seconds - a.seconds);
  return ranked.slice(0, CHANGES).map((one) => ({ ...one.change, part: one.seconds / (ranked[0]?.seconds || 1) }));
}

/** What the answer in a profile proposes for its device. */
export function proposed({ proposals, together }: Answer): Change[] {
  const every = together ? [...proposals, together] : proposals;
  const gain = ({ before_s: before, after }: Proposal) => (after ? before - after.value : 0);
  const most = Math.max(...every.map(gain));
  return every.map((one) => ({
    text: one.text,
    reason: "",
    saving: one.after ? `${duration(one.before_s)} → ${duration(one.after.value)}` : `${bytes(one.saved_bytes)} less`,
    origin: "estimated",
    confidence: null,
    ids: [],
    setting: null,
    part: most > 0 ? gain(one) / most : 0,
    certainty: one.certainty,
    code: one.code,
    command: one.command,
  }));
}

interface Ranked {
  seconds: number;
  change: Omit<Change, "part">;
}

/** The finding on what all findings on operations save together, of `forecast/model_findings.py`. */
const TOGETHER = "findings-together";
/** A joint saving is worth a line where it exceeds the sum by more than rounding. */
const MORE_THAN_SUM = 1.01;

/** What findings on the model suggest, with their savings on the device of a plan; all together, where that saves more than each by itself. */
function mended({ placement, findings = [] }: Advised): Ranked[] {
  const saving = findings.flatMap((finding) => {
    const [saved, { confidence }] = [savingOn(finding, placement), finding];
    const seconds = saved ? secondsOf(saved) : 0;
    return saved && confidence && seconds > 0 ? [{ finding, confidence, saved, seconds }] : [];
  });
  const apart = saving.filter(({ finding }) => finding.id !== TOGETHER);
  const sum = apart.reduce((total, one) => total + one.seconds, 0);
  return saving.flatMap(({ finding, confidence, saved, seconds }) => {
    const { id, text, hint, ops } = finding;
    if (id === TOGETHER && seconds <= sum * MORE_THAN_SUM) return [];
    const words = id === TOGETHER ? { text: "fix all findings on operations, together", reason: text } : wording(hint, text);
    return [{ seconds, change: { ...words, ...savingOf(saved), confidence, ids: [...ops], setting: null } }];
  });
}

/** What the plan made again without a reason saves; without all of them, where that saves more than each by itself together. */
function planned({ placement, rows }: Advised): Ranked[] {
  const idOf = new Map(rows.all.filter((row) => row.column >= 0).map((row) => [row.column, row.id]));
  const ranked = (one: WhatIf, words: Pick<Change, "text" | "reason">): Ranked => {
    const ids = one.ops.map((column) => idOf.get(column)).filter((id) => id !== undefined);
    return { seconds: secondsOf(one), change: { ...words, ...savingOf(one), confidence: one.confidence, ids, setting: null } };
  };
  const { what_ifs: whatIfs } = placement.setting;
  return whatIfs
    .filter((one) => secondsOf(one) > 0)
    .flatMap((one) => {
      if (one.hypothesis === "without") return [ranked(one, wording(one.fix, one.reason))];
      if (one.hypothesis !== "without all") return [];
      const each = whatIfs.filter((other) => other.hypothesis === "without" && other.unit === one.unit && other.function === one.function);
      const apart = each.reduce((sum, other) => sum + Math.max(0, secondsOf(other)), 0);
      if (secondsOf(one) <= apart) return [];
      const text = `remove all ${each.length} reasons that keep operations from the ${UNIT_NAMES[one.unit]}, together`;
      return [ranked(one, { text, reason: each.map((other) => other.fix || other.reason).join("; ") })];
    });
}

/** The fastest of the other settings, if its interval is below that of the chosen one. */
function elsewhereFaster({ placement, estimates }: Advised): Ranked[] {
  const here = estimates?.get(placement.name);
  if (!estimates || !here || here.left_out.length > 0) return [];
  const others = [...estimates].filter(([, one]) => one.left_out.length === 0 && one.latency.high < here.latency.low);
  const [found] = others.sort(([, a], [, b]) => a.latency.value - b.latency.value);
  if (!found) return [];
  const [setting, there] = found;
  const seconds = here.latency.value - there.latency.value;
  const saving = `saves ${duration(seconds)} (${duration(here.latency.value)} → ${duration(there.latency.value)})`;
  const text = `run it with the setting ${SETTING_NAMES[setting]}`;
  return [{ seconds, change: { text, reason: "", saving, origin: "estimated", confidence: null, ids: [], setting } }];
}

type Saved = Pick<WhatIf, "saved_s" | "saved_ms">;

/** Zero where the estimate does not tell a saving from a loss. */
function secondsOf({ saved_s: figure, saved_ms: planned }: Saved): number {
  if (!figure) return planned / 1e3;
  return figure.low > 0 ? figure.value : Math.min(figure.value, 0);
}

function savingOf({ saved_s: figure, saved_ms: planned }: Saved): Pick<Change, "saving" | "origin"> {
  if (!figure) return { saving: `saves ${cost(planned)} of the planned cost`, origin: "planned" };
  return { saving: `saves ${duration(figure.value)} (${duration(figure.low)} – ${duration(figure.high)})`, origin: "estimated" };
}

const wording = (fix: string, reason: string): Pick<Change, "text" | "reason"> => ({ text: fix || reason, reason: fix ? reason : "" });

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
    const key = reason.common ?? reason.rule;
    const group = found.get(key);
    if (group) {
      group.text = reason.common ?? group.text;
      group.ids.push(row.id);
    } else {
      found.set(key, { rule: reason.rule, text: reason.text, ids: [row.id] });
    }
  }
  return {
    count: away.length,
    reasons: [...found.values()].sort((a, b) => b.ids.length - a.ids.length),
    unexplained: unexplained.map((row) => row.id),
    types: [...new Set(unexplained.map((row) => row.type))],
  };
}
