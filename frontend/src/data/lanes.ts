import { isFold, isPiece, type Part } from "./folding";
import { kernelLabel } from "./profile";
import type { ComputeUnit, Estimate, Group, Kernel, OpTable, Origin } from "./schema";
import { UNIT_NAMES } from "./words";

/** What takes the time of a span: operations, or what a runtime does between them. */
export type SpanKind = "work" | "launch" | "change" | "rest";

/** A time span in a lane. */
export interface Span {
  kind: SpanKind;
  /** The operation that a click selects; empty where there is none. */
  id: string;
  label: string;
  start: number;
  seconds: number;
  /** Rows of the operations table. */
  ops: readonly number[];
  /** How many equal ones it stands for, where equal blocks are shown once. */
  times?: number;
}

export interface Lane {
  title: string;
  unit: ComputeUnit | "measured";
  spans: Span[];
}

/** A change of unit, what it costs, and the operation that follows. */
export interface Switch {
  at: number;
  from: ComputeUnit;
  to: ComputeUnit;
  seconds: number;
  id: string;
}

/** The sequence of events in one prediction. */
export interface Timeline {
  origin: Origin;
  lanes: Lane[];
  seconds: number;
  /** The changes of unit. */
  switches: Switch[];
  /** A note on what the spans do not include. */
  omitted: string;
}

/** The measured groups in the order of execution. */
export function measuredTimeline(table: OpTable, groups: readonly Group[]): Timeline {
  let now = 0;
  const spans = groups.map((group): Span => {
    const start = now;
    now += group.wall_s;
    return { kind: "work", id: table.id[group.ops[0] ?? -1] ?? "", label: group.label, start, seconds: group.wall_s, ops: group.ops };
  });
  return {
    origin: "measured",
    lanes: [{ title: "Measured", unit: "measured", spans }],
    seconds: now,
    switches: [],
    omitted: "Groups are in the order of execution, each with the median of its times. Gaps between them are not shown.",
  };
}

/** Estimated kernel times in sequence, with launches of units and changes between them; null where the estimate has no kernels. */
export function estimatedTimeline(table: OpTable, kernels: readonly Kernel[], estimate: Estimate): Timeline | null {
  if (estimate.kernel_s.length === 0) return null;
  const sequence = new Sequence(estimate.units);
  const change_s = estimate.switches > 0 ? (estimate.parts.switches ?? 0) / estimate.switches : 0;
  const launches = new Map(estimate.terms.map((one) => [one.unit, one.launch_s]));
  let last: ComputeUnit | null = null;
  kernels.forEach((kernel, index) => {
    const unit = estimate.units[estimate.kernel_unit[index] ?? -1];
    const seconds = estimate.kernel_s[index] ?? 0;
    if (!unit || seconds <= 0) return;
    if (last && last !== unit) sequence.add(unit, "change", `change to the ${UNIT_NAMES[unit]}`, change_s);
    // An estimate has one launch of each unit in a prediction.
    if (launches.has(unit)) sequence.add(unit, "launch", `launch of the ${UNIT_NAMES[unit]}`, launches.get(unit) ?? 0);
    launches.delete(unit);
    sequence.add(unit, "work", kernelLabel(table.type, kernel), seconds, table.id[kernel.ops[0] ?? -1] ?? "", kernel.ops);
    last = unit;
  });
  const rest = sequence.finish(estimate.latency.value);
  const omitted = rest
    ? "Hatched: launches of units, changes between them, and at the end conversions of inputs and outputs and what is not known by kernel."
    : "Hatched: launches of units and changes between them.";
  return { ...sequence.timeline(), origin: "estimated", omitted };
}

/** A timeline in which equal blocks are once, with the sum of their times; `firsts` is what operations of later blocks are like. */
export function merged(timeline: Timeline, firsts: (op: number) => number): Timeline {
  const all = timeline.lanes.flatMap((lane) => lane.spans.map((span) => ({ span, lane }))).sort((a, b) => a.span.start - b.span.start);
  const found = new Map<string, { lane: Lane; span: Span; times: number }>();
  // What a runtime does between operations goes with the one that follows.
  let next = "";
  for (const { span, lane } of all.reverse()) {
    if (span.kind === "work") next = `${firsts(span.ops[0] ?? -1)} ${span.id && firsts(span.ops[0] ?? -1) < 0 ? span.id : ""}`;
    const key = [span.kind, lane.title, span.label, next].join();
    const known = found.get(key);
    found.delete(key);
    // Those of the first block are seen last and stand for all.
    const seconds = span.seconds + (known?.span.seconds ?? 0);
    const times = 1 + (known?.times ?? 0);
    found.set(key, { lane, times, span: { ...span, seconds, times } });
  }
  let [now, last]: [number, Lane["unit"] | null] = [0, null];
  const lanes = new Map(timeline.lanes.map((lane) => [lane, { ...lane, spans: [] as Span[] }]));
  const switches: Switch[] = [];
  for (const { lane, span } of [...found.values()].reverse()) {
    if (last !== null && last !== lane.unit && lane.unit !== "measured" && last !== "measured")
      switches.push({ at: now, from: last, to: lane.unit, seconds: 0, id: span.id });
    lanes.get(lane)?.spans.push({ ...span, start: now });
    now += span.seconds;
    last = lane.unit;
  }
  return { ...timeline, lanes: [...lanes.values()], switches };
}

/** Spans of one kind in a part of a timeline. */
export interface KindSum {
  unit: Lane["unit"];
  label: string;
  count: number;
  seconds: number;
}

/** Counts and whole times, by kind, of the spans that are at least partly between two times; the longest first. */
export function sumsByKind(timeline: Timeline, from: number, to: number): KindSum[] {
  const found = new Map<string, KindSum>();
  for (const { unit, spans } of timeline.lanes) {
    for (const { start, seconds, label, times = 1 } of spans) {
      if (start >= to || start + seconds <= from) continue;
      const sum = found.get(`${unit} ${label}`) ?? { unit, label, count: 0, seconds: 0 };
      found.set(`${unit} ${label}`, sum);
      sum.count += times;
      sum.seconds += seconds;
    }
  }
  return [...found.values()].sort((a, b) => b.seconds - a.seconds);
}

/** The least part of the whole that is shown as the rest; less is due to the rounding of costs in a page. */
const LEAST_REST = 1e-4;

/** Spans one after the other, each in the lane of its unit. */
class Sequence {
  private readonly lanes: Map<ComputeUnit, Lane>;
  private readonly switches: Timeline["switches"] = [];
  private now = 0;
  private last: ComputeUnit | null = null;

  constructor(units: readonly ComputeUnit[]) {
    const order: ComputeUnit[] = ["neural_engine", "gpu", "cpu"];
    this.lanes = new Map(order.filter((unit) => units.includes(unit)).map((unit) => [unit, { title: UNIT_NAMES[unit], unit, spans: [] }]));
  }

  add(unit: ComputeUnit, kind: SpanKind, label: string, seconds: number, id = "", ops: readonly number[] = []): void {
    if (seconds <= 0) return;
    if (this.last && this.last !== unit) this.switches.push({ at: this.now, from: this.last, to: unit, seconds: 0, id: "" });
    const change = this.switches.at(-1);
    if (change?.id === "" && kind === "change") change.seconds += seconds;
    if (change?.id === "" && kind === "work") change.id = id;
    this.lanes.get(unit)?.spans.push({ kind, id, label, start: this.now, seconds, ops });
    this.now += seconds;
    this.last = unit;
  }

  /** Adds what the total has besides; whether that is anything. */
  finish(total: number | null): boolean {
    const rest = total === null ? 0 : total - this.now;
    if (!this.last || rest <= (total ?? 0) * LEAST_REST) return false;
    this.add(this.last, "rest", "launches, changes and conversions whose place is not known", rest);
    return true;
  }

  timeline(): Pick<Timeline, "lanes" | "seconds" | "switches"> {
    return { lanes: [...this.lanes.values()], seconds: this.now, switches: this.switches };
  }
}

/** A module or block over the time of its operations. */
export interface ModuleSpan {
  title: string;
  depth: number;
  start: number;
  seconds: number;
}

/** How deep modules are shown. */
const DEPTH = 3;

/** The folds of a graph over time, outer ones first; pieces of long lists and folds without times are left out. */
export function moduleSpans(parts: readonly Part[], timeline: Timeline): ModuleSpan[] {
  const times = new Map<number, [number, number]>();
  for (const lane of timeline.lanes)
    for (const span of lane.spans) for (const op of span.ops) times.set(op, [span.start, span.start + span.seconds]);
  const found: ModuleSpan[] = [];
  const visit = (inner: readonly Part[], depth: number) => {
    for (const part of inner) {
      if (!isFold(part)) continue;
      const inside = part.rows.flatMap((row) => {
        const time = times.get(row.op);
        return time ? [time] : [];
      });
      const isNamed = !isPiece(part) && inside.length > 0;
      const start = inside.reduce((least, [from]) => Math.min(least, from), Number.POSITIVE_INFINITY);
      const end = inside.reduce((most, [, to]) => Math.max(most, to), 0);
      if (isNamed) found.push({ title: part.title, depth, start, seconds: end - start });
      if (depth + 1 < DEPTH || !isNamed) visit(part.parts, isNamed ? depth + 1 : depth);
    }
  };
  visit(parts, 0);
  return found;
}
