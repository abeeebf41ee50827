/** What the first screen answers, from the figures of a report. */
import { duration, plural } from "../format";
import type { Placement } from "./placement";
import { kernelLabel } from "./profile";
import type { Row, Rows } from "./rows";
import { savingOn } from "./savings";
import type { ComputeUnit, Confidence, Estimate, Finding, Group, Kernel, Measurement, OpTable, Origin, WhatIf } from "./schema";
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
  return summed(parts, "measured", null);
}

const unitOf = (estimate: Estimate, kernel: number): ComputeUnit | null => estimate.units[estimate.kernel_unit[kernel] ?? -1] ?? null;

function part(table: OpTable, ops: readonly number[], label: string, seconds: number): TimePart {
  const named = ops.find((op) => table.layer[op]) ?? ops.at(-1) ?? -1;
  const name = table.layer[named] || table.name[named] || "";
  return { label, name, ids: ops.map((op) => table.id[op] ?? ""), unit: null, seconds };
}

function plannedParts(rows: Rows, placement: Placement): TimePart[] {
  return rows.all
    .filter((row) => row.column >= 0)
    .map((row) => ({
      ...{ label: row.type, name: row.layer || row.name, ids: [row.id] },
      unit: placement.unit(row.column),
      seconds: (placement.costMs(row.column) ?? 0) / 1e3,
    }));
}

function summed(parts: TimePart[], origin: Origin, total: number | null): Spending | null {
  const timed = parts.filter((one) => one.seconds > 0).sort((a, b) => b.seconds - a.seconds);
  const sum = timed.reduce((seconds, one) => seconds + one.seconds, 0);
  if (sum <= 0) return null;
  const overhead = total === null ? null : Math.max(0, total - sum);
  return {
    ...{ origin, totalSeconds: total ?? sum, groups: timed.length, dearest: timed.slice(0, DEAREST) },
    types: byLabel(timed),
    overheadSeconds: overhead,
  };
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
  const rest = estimate.latency.value - parts.reduce((sum, one) => sum + one.seconds, 0);
  return rest > 0 && parts.length > 0 ? [...parts, { unit: "overhead", seconds: rest }] : parts;
}

/** A change that is worth making. */
export interface Change {
  /** What to do; the reason that it removes, where no remedy is known. */
  text: string;
  /** The reason that it removes; empty where `text` is the reason. */
  reason: string;
  /** What it saves, as text; empty where that is not known. */
  saving: string;
  /** Of the saving. */
  origin: Origin;
  confidence: Confidence;
  /** The ids of its operations. */
  ids: string[];
}

const CHANGES = 3;

/** The changes that save most, then advice whose saving is not known. */
export function changes(placement: Placement, rows: Rows, findings: readonly Finding[] = []): Change[] {
  const idOf = new Map(rows.all.filter((row) => row.column >= 0).map((row) => [row.column, row.id]));
  const saving = placement.setting.what_ifs
    .filter((one) => one.hypothesis === "without" && (one.saved_s ? one.saved_s.value : one.saved_ms) > 0)
    .map((one): Ranked => {
      const ids = one.ops.map((column) => idOf.get(column)).filter((id) => id !== undefined);
      return { seconds: secondsOf(one), change: { ...wording(one.fix, one.reason), ...savingOf(one), confidence: one.confidence, ids } };
    });
  const ranked = [...saving, ...mended(placement, findings)].sort((a, b) => b.seconds - a.seconds);
  return [...ranked.map((one) => one.change), ...advised(placement, rows)].slice(0, CHANGES);
}

interface Ranked {
  seconds: number;
  change: Change;
}

/** What findings on the model suggest, with their savings on the device of a plan. */
function mended(placement: Placement, findings: readonly Finding[]): Ranked[] {
  return findings.flatMap((one) => {
    const saving = savingOn(one, placement);
    if (!saving || !one.confidence) return [];
    const { text, hint, confidence, ops } = one;
    return [{ seconds: secondsOf(saving), change: { ...wording(hint, text), ...savingOf(saving), confidence, ids: [...ops] } }];
  });
}

type Saved = Pick<WhatIf, "saved_s" | "saved_ms">;

const secondsOf = ({ saved_s: figure, saved_ms: planned }: Saved): number => figure?.value ?? planned / 1e3;

function savingOf({ saved_s: figure, saved_ms: planned }: Saved): Pick<Change, "saving" | "origin"> {
  if (!figure) return { saving: `saves ${duration(planned / 1e3)}`, origin: "planned" };
  return { saving: `saves ${duration(figure.value)} (${duration(figure.low)} – ${duration(figure.high)})`, origin: "estimated" };
}

const wording = (fix: string, reason: string): Pick<Change, "text" | "reason"> => ({ text: fix || reason, reason: fix ? reason : "" });

/** What would help operations where they run; what concerns most operations first. */
function advised(placement: Placement, rows: Rows): Change[] {
  const found = new Map<string, Change>();
  for (const row of rows.all) {
    if (row.column < 0) continue;
    for (const one of placement.advice(row.column)) {
      if (one.unit !== placement.unit(row.column)) continue;
      const { confidence } = one;
      const change: Change = found.get(one.rule) ?? { ...wording(one.fix, one.text), saving: "", origin: "planned", confidence, ids: [] };
      found.set(one.rule, change);
      change.ids.push(row.id);
    }
  }
  return [...found.values()].sort((a, b) => b.ids.length - a.ids.length);
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
    const group = found.get(reason.rule) ?? { rule: reason.rule, text: reason.text, ids: [] };
    found.set(reason.rule, group);
    group.ids.push(row.id);
  }
  return {
    count: away.length,
    reasons: [...found.values()].sort((a, b) => b.ids.length - a.ids.length),
    unexplained: unexplained.map((row) => row.id),
    types: [...new Set(unexplained.map((row) => row.type))],
  };
}
