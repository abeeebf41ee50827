import type { Events, TraceForm } from "./schema";

type Column = BigInt64Array | Int32Array | Uint8Array;

/** The events of a recorded program: one entry for each event, in the order of their start. Times are seconds. */
export interface TraceEvents {
  length: number;
  start: Float64Array;
  seconds: Float64Array;
  kind: Uint8Array;
  /** The position of the model's group; −1 for events without a model. */
  group: Int32Array;
  process: Int32Array;
  thread: Int32Array;
  task: Int32Array;
  site: Int32Array;
  detail: Int32Array;
  bytes: Float64Array;
  failed: Uint8Array;
  depth: Uint8Array;
}

/** A recorded program, ready to be shown. */
export interface Recorded {
  form: TraceForm;
  events: TraceEvents;
  /** The names of models; loads of the same model count as one. */
  groups: string[];
  lanes: TraceLane[];
  /** The first event and the end, in seconds. */
  first: number;
  last: number;
}

/** The events of one lane and model. */
export interface TraceLane {
  lane: string;
  group: number;
  title: string;
  /** Positions of events, by start. */
  events: Int32Array;
  /** The largest duration among the events so far, to find those that reach into a span of time. */
  longest: number;
}

const FAILED = 1;
const LANES = ["activity", "data", "compute"] as const;

/** Decodes the columns of a recording. */
export async function readTrace(form: TraceForm): Promise<Recorded> {
  const column = async (name: keyof Events) => decodeColumn(form.events[name]);
  const [starts, durations, kind, model, process, thread, task, site, detail, sizes, flags, depth] = (await Promise.all(
    (["start_ns", "duration_ns", "kind", "model", "process", "thread", "task", "site", "detail", "bytes", "flags", "depth"] as const).map(
      column,
    ),
  )) as [
    BigInt64Array,
    BigInt64Array,
    Uint8Array,
    Int32Array,
    Int32Array,
    Int32Array,
    Int32Array,
    Int32Array,
    Int32Array,
    BigInt64Array,
    Uint8Array,
    Uint8Array,
  ];
  const { names, groupOf } = groupModels(form);
  const length = starts.length;
  const events: TraceEvents = {
    length,
    start: Float64Array.from(starts, (value) => Number(value) / 1e9),
    seconds: Float64Array.from(durations, (value) => Number(value) / 1e9),
    kind,
    group: Int32Array.from(model, (value) => (value < 0 ? -1 : (groupOf[value] ?? -1))),
    process,
    thread,
    task,
    site,
    detail,
    bytes: Float64Array.from(sizes, Number),
    failed: Uint8Array.from(flags, (value) => value & FAILED),
    depth,
  };
  const last = form.duration_ns / 1e9;
  return { form, events, groups: names, lanes: lanesOf(form, events, names), first: events.start[0] ?? 0, last };
}

async function decodeColumn(text: string): Promise<Column> {
  const split = text.indexOf(":");
  const packed = Uint8Array.from(atob(text.slice(split + 1)), (character) => character.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const data = await new Response(stream).arrayBuffer();
  switch (text.slice(0, split)) {
    case "<i8":
      return new BigInt64Array(data);
    case "<i4":
      return new Int32Array(data);
    default:
      return new Uint8Array(data);
  }
}

/** Groups loads of the same model; names that occur twice get a number. */
function groupModels(form: TraceForm): { names: string[]; groupOf: number[] } {
  const known = new Map<string, number>();
  const names: string[] = [];
  const groupOf = form.models.map((model) => {
    const key = `${model.key || model.name}\0${model.function}`;
    let group = known.get(key);
    if (group === undefined) {
      group = known.size;
      known.set(key, group);
      const name = model.function ? `${model.name}:${model.function}` : model.name;
      names.push(names.includes(name) ? `${name} (${group + 1})` : name);
    }
    return group;
  });
  return { names, groupOf };
}

/** The lanes: one for each model, and for each compute unit whose intervals or requests have no model. */
function lanesOf(form: TraceForm, events: TraceEvents, names: readonly string[]): TraceLane[] {
  const units = form.kinds.map((kind) => (/ (busy|request)$/.test(kind.name) ? kind.name.replace(/ busy$/, "") : null));
  const titles = ["no model", ...names, ...units];
  const found = new Map<number, number[]>();
  for (let index = 0; index < events.length; index++) {
    if (events.seconds[index] === 0) continue;
    const kind = events.kind[index] ?? 0;
    const group = events.group[index] ?? -1;
    const title = group < 0 && units[kind] ? 1 + names.length + kind : 1 + group;
    const key = LANES.indexOf(form.kinds[kind]?.lane as (typeof LANES)[number]) * 65536 + title;
    const members = found.get(key);
    if (members) members.push(index);
    else found.set(key, [index]);
  }
  return [...found]
    .sort(([one], [other]) => one - other)
    .map(([key, members]) => {
      const title = key % 65536;
      const longest = members.reduce((most, index) => Math.max(most, events.seconds[index] ?? 0), 0);
      return {
        lane: LANES[Math.floor(key / 65536)] ?? "activity",
        group: title > names.length ? -1 : title - 1,
        title: titles[title] ?? "",
        events: Int32Array.from(members),
        longest,
      };
    });
}

/** One row of the totals. */
export interface TraceTotal {
  group: number;
  model: string;
  kind: string;
  lane: string;
  count: number;
  failed: number;
  total: number;
  /** The share of the span of time in which at least one of them was under way. */
  share: number;
  mean: number;
  min: number;
  median: number;
  p95: number;
  p99: number;
  max: number;
  bytes: number;
}

/** The group of rows over all models. */
export const ALL_MODELS = -2;

/** The events that overlap a span of time, by model and kind; those of several models also together. */
function membersOf(recorded: Recorded, span: readonly [number, number] | null, group: number | null): Map<number, number[]> {
  const { events, groups } = recorded;
  const members = new Map<number, number[]>();
  const add = (key: number, index: number) => {
    const found = members.get(key);
    if (found) found.push(index);
    else members.set(key, [index]);
  };
  const hasAll = group === null && groups.length > 1;
  for (let index = 0; index < events.length; index++) {
    const start = events.start[index] ?? 0;
    const own = events.group[index] ?? -1;
    if (span && (start > span[1] || start + (events.seconds[index] ?? 0) < span[0])) continue;
    if (group !== null && own !== group) continue;
    const kind = events.kind[index] ?? 0;
    add((own - ALL_MODELS) * 256 + kind, index);
    if (hasAll && own >= 0) add(kind, index);
  }
  return members;
}

/** The share of a span of time that events cover; they are in the order of their start. */
function coveredOf(events: TraceEvents, found: readonly number[], [from, to]: readonly [number, number]): number {
  let [covered, reached] = [0, from];
  for (const index of found) {
    const start = events.start[index] ?? 0;
    const end = Math.min(start + (events.seconds[index] ?? 0), to);
    covered += Math.max(end - Math.max(start, reached), 0);
    reached = Math.max(reached, end);
  }
  return covered / (to - from || 1);
}

/** Sums the events by model and kind that overlap a span of time; those of several models together come first. */
export function totalsOf(recorded: Recorded, span: readonly [number, number] | null, group: number | null): TraceTotal[] {
  const { events, form, groups } = recorded;
  const members = membersOf(recorded, span, group);
  const rows = [...members].map(([key, found]) => {
    const seconds = Float64Array.from(found, (index) => events.seconds[index] ?? 0).sort();
    const total = seconds.reduce((sum, value) => sum + value, 0);
    const own = Math.floor(key / 256) + ALL_MODELS;
    const kind = form.kinds[key % 256];
    return {
      group: own,
      model: own === ALL_MODELS ? "all models" : (groups[own] ?? ""),
      kind: kind?.name ?? "",
      lane: kind?.lane ?? "",
      count: found.length,
      failed: found.reduce((sum, index) => sum + (events.failed[index] ?? 0), 0),
      total,
      share: coveredOf(events, found, span ?? [0, recorded.last]),
      mean: total / found.length,
      min: seconds[0] ?? 0,
      median: percentile(seconds, 0.5),
      p95: percentile(seconds, 0.95),
      p99: percentile(seconds, 0.99),
      max: seconds.at(-1) ?? 0,
      bytes: found.reduce((sum, index) => sum + (events.bytes[index] ?? 0), 0),
    };
  });
  const isAll = (row: TraceTotal) => Number(row.group === ALL_MODELS);
  return rows.sort((one, other) => isAll(other) - isAll(one) || other.total - one.total);
}

/** One row of the operations. */
export interface OperationTotal {
  group: number;
  model: string;
  operation: string;
  count: number;
  total: number;
  median: number;
  /** The part of the time of all operations of the model. */
  share: number;
}

/** The operations that lie inside no other one of their thread. */
function* outermostOperations(recorded: Recorded): Generator<number> {
  const { events, form } = recorded;
  const kind = form.kinds.findIndex((one) => one.name === "operation");
  const reached = new Map<number, number>();
  for (let index = 0; index < events.length; index++) {
    if (events.kind[index] !== kind) continue;
    const start = events.start[index] ?? 0;
    const thread = (events.process[index] ?? 0) * 65536 + (events.thread[index] ?? 0);
    if (start < (reached.get(thread) ?? -1)) continue;
    reached.set(thread, start + (events.seconds[index] ?? 0));
    yield index;
  }
}

/** Sums the operations by model that overlap a span of time; those inside another one, such as a loop, are left out. */
export function operationsOf(recorded: Recorded, span: readonly [number, number] | null, group: number | null): OperationTotal[] {
  const { events, form, groups } = recorded;
  const members = new Map<string, number[]>();
  const sums = new Map<number, number>();
  for (const index of outermostOperations(recorded)) {
    const start = events.start[index] ?? 0;
    const seconds = events.seconds[index] ?? 0;
    const own = events.group[index] ?? -1;
    if (span && (start > span[1] || start + seconds < span[0])) continue;
    if (group !== null && own !== group) continue;
    sums.set(own, (sums.get(own) ?? 0) + seconds);
    const key = `${own} ${events.detail[index]}`;
    const found = members.get(key);
    if (found) found.push(index);
    else members.set(key, [index]);
  }
  const rows = [...members.values()].map((found) => {
    const seconds = Float64Array.from(found, (index) => events.seconds[index] ?? 0).sort();
    const total = seconds.reduce((sum, value) => sum + value, 0);
    const own = events.group[found[0] ?? 0] ?? -1;
    return {
      group: own,
      model: own < 0 ? "" : (groups[own] ?? ""),
      operation: form.details[events.detail[found[0] ?? 0] ?? -1] ?? "",
      count: found.length,
      total,
      median: percentile(seconds, 0.5),
      share: total / (sums.get(own) || 1),
    };
  });
  return rows.sort((one, other) => other.total - one.total);
}

/** A percentile of sorted values, interpolated linearly as NumPy does. */
export function percentile(sorted: Float64Array, part: number): number {
  const at = part * (sorted.length - 1);
  const [low, high] = [sorted[Math.floor(at)] ?? 0, sorted[Math.ceil(at)] ?? 0];
  return low + (high - low) * (at - Math.floor(at));
}

/** The last event of a lane that covers a time, or that ended within `reach` before it; −1 if there is none. */
export function eventAt(recorded: Recorded, lane: TraceLane, time: number, reach: number): number {
  const { start, seconds } = recorded.events;
  for (let position = firstAfter(recorded, lane, time) - 1; position >= 0; position--) {
    const index = lane.events[position] ?? 0;
    const begin = start[index] ?? 0;
    if (begin < time - lane.longest - reach) break;
    if (time <= begin + (seconds[index] ?? 0) + reach) return index;
  }
  return -1;
}

/** The position in a lane of the first event that starts after a time. */
export function firstAfter(recorded: Recorded, lane: TraceLane, time: number): number {
  let [low, high] = [0, lane.events.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((recorded.events.start[lane.events[middle] ?? 0] ?? 0) <= time) low = middle + 1;
    else high = middle;
  }
  return low;
}
