import type { Costs, CriticalPath } from "../../data/critical";
import { type Drawing, type Edge, rowsIn } from "../../data/drawing";
import { type Fold, isFold, type Part } from "../../data/folding";
import type { Switch } from "../../data/lanes";
import type { Row } from "../../data/rows";
import type { ComputeUnit } from "../../data/schema";
import { UNIT_NAMES, UNIT_SHORT } from "../../data/words";
import { duration, plural, share } from "../../format";
import type { Line } from "../../layout/shapes";
import { nameOf } from "./names";

export const UNIT_ORDER: readonly ComputeUnit[] = ["neural_engine", "gpu", "cpu"];

/** What colours a part: its operations on each unit, and its share of all times. */
export interface Look {
  units: ReadonlyMap<ComputeUnit, number>;
  /** How many equal operations it stands for, where equal blocks are drawn once. */
  times: number;
  /** Its time, `4 × 16.8 µs` where it stands for several; `same` where a group's time is at another operation; empty where none is known. */
  time: string;
  /** Seconds of all groups that begin in it. */
  seconds: number;
  /** Its share of all costs that colour; null where units do, or nothing has a cost. */
  share: number | null;
  /** Its key attributes. */
  attributes: string;
  isCritical: boolean;
  /** Whether a search finds it, or something in it. */
  isFound: boolean;
  isPicked: boolean;
}

/** What decides how parts and edges look. */
export interface Colours {
  drawing: Drawing;
  /** All operations of the graph. */
  rows: readonly Row[];
  unitOf: (row: Row) => ComputeUnit | null;
  attributesOf: (row: Row) => string;
  /** The times that parts show. */
  times: Costs | null;
  /** Null where units colour. */
  costs: Costs | null;
  /** Null where it is not shown. */
  path: CriticalPath | null;
  found: ReadonlySet<Row>;
  /** The selected operations. */
  picked: ReadonlySet<Row>;
}

/** Looks of parts and edges; each is computed once. */
export class Looks {
  private readonly known = new Map<Part, Look>();
  private readonly next = new Map<Row, Row>();
  private readonly critical: ReadonlySet<Row>;
  private readonly total: number;

  constructor(private readonly colours: Colours) {
    const path = colours.path?.rows ?? [];
    this.critical = new Set(path);
    path.forEach((row, index) => {
      const after = path[index + 1];
      if (after) this.next.set(row, after);
    });
    this.total = colours.costs?.whole ?? 0;
  }

  of(part: Part): Look {
    const found = this.known.get(part) ?? this.look(part);
    this.known.set(part, found);
    return found;
  }

  /** Whether a value of the edge goes from one unit to another. */
  isSwitch(edge: Edge): boolean {
    return edge.values.some(({ source, reader }) => {
      const [from, to] = [this.colours.unitOf(source), this.colours.unitOf(reader)];
      return from !== null && to !== null && from !== to;
    });
  }

  /** The class of a line; what several edges share changes the unit if all of them do. */
  lineClass({ edges }: Line, drawing: Drawing): "" | "edge-critical" | "edge-switch" {
    const all = edges.map((index) => drawing.edges[index]).filter((one) => one !== undefined);
    if (all.some((edge) => edge.values.some(({ source, reader }) => this.next.get(source) === reader))) return "edge-critical";
    return all.length > 0 && all.every((edge) => this.isSwitch(edge)) ? "edge-switch" : "";
  }

  /** The time of a fold with its share of all: `3.66 ms · 80.1 %`; empty where none is known. */
  sum(fold: Fold): string {
    const { drawing, times } = this.colours;
    const seconds = secondsOf(drawing.rowsOf.get(fold) ?? fold.rows, times);
    return times && seconds > 0 ? `${duration(seconds)} · ${share(seconds / times.whole)}` : "";
  }

  private look(part: Part): Look {
    const { drawing, unitOf, costs, times, found, picked, attributesOf } = this.colours;
    const rows = drawing.rowsOf.get(part) ?? rowsIn(part);
    const units = new Map<ComputeUnit, number>();
    for (const row of rows) {
      const unit = unitOf(row);
      if (unit) units.set(unit, (units.get(unit) ?? 0) + 1);
    }
    const seconds = secondsOf(rows, times);
    const number = rows.length / rowsIn(part).length;
    const isInGroup = seconds === 0 && rows.some((row) => times?.groupsOf.has(row));
    return {
      ...{ units, times: number, seconds, share: costs && this.total > 0 ? secondsOf(rows, costs) / this.total : null },
      time: seconds > 0 ? `${number > 1 ? `${number} × ` : ""}${duration(seconds / number)}` : isInGroup ? "same" : "",
      attributes: isFold(part) ? "" : attributesOf(part),
      isCritical: rows.some((row) => this.critical.has(row)),
      isFound: rows.some((row) => found.has(row)),
      isPicked: rows.some((row) => picked.has(row)),
    };
  }
}

/** The time of a group is never split: it counts where its first operation is. */
export function secondsOf(rows: readonly Row[], costs: Costs | null): number {
  let sum = 0;
  for (const row of rows)
    for (const group of costs?.groupsOf.get(row) ?? []) if (costs?.firstOf[group] === row) sum += costs.seconds[group] ?? 0;
  return sum;
}

/** A part in words: `conv, stem (main/0): fp16 1×32×112×112; on the Neural Engine`. */
export function wordsOf(part: Part, look: Look): string {
  const units = UNIT_ORDER.filter((unit) => look.units.has(unit)).map((unit) =>
    isFold(part) ? `${look.units.get(unit)} on the ${UNIT_NAMES[unit]}` : `on the ${UNIT_NAMES[unit]}`,
  );
  const time = look.time === "same" ? "timed with others" : look.time;
  const cost = look.share === null ? "" : `${share(look.share)} of all`;
  const more = [...units, time, cost, look.isCritical ? "on the critical path" : ""].filter(Boolean).map((text) => `; ${text}`);
  if (isFold(part)) return `${part.title}: ${plural(part.rows.length, "operation")}${more.join("")}`;
  return `${[typeOf(part), look.attributes].filter(Boolean).join(" ")}, ${nameOf(part)} (${part.id}): ${part.output}${more.join("")}`;
}

/** The values of a line in words. */
export function lineWords({ edges }: Line, drawing: Drawing, looks: Looks): string {
  const all = edges.map((index) => drawing.edges[index]).filter((one) => one !== undefined);
  const shown = all.slice(0, 4).map((edge) => {
    const [from, to] = [drawing.boxes[edge.from], drawing.boxes[edge.to]];
    const types = [...new Set(edge.values.map(({ source }) => source.output))];
    const change = looks.isSwitch(edge) ? " (change of unit)" : "";
    return `${from ? nameOf(from) : ""} → ${to ? nameOf(to) : ""}: ${types.slice(0, 3).join(", ")}${types.length > 3 ? " …" : ""}${change}`;
  });
  return [...shown, ...(all.length > shown.length ? [`and ${all.length - shown.length} more`] : [])].join("\n");
}

/** The type of the author's layer, or of the operation. */
export const typeOf = (row: Row): string => row.layerType || row.type;

/** `CPU → NE · 50.7 µs`, `16 × CPU → NE · 811 µs`. */
export function breakWords(changes: readonly Switch[]): string {
  const [first] = changes;
  if (!first) return "";
  const seconds = changes.reduce((sum, one) => sum + one.seconds, 0);
  const times = changes.length > 1 ? `${changes.length} × ` : "";
  return `${times}${UNIT_SHORT[first.from]} → ${UNIT_SHORT[first.to]}${seconds > 0 ? ` · ${duration(seconds)}` : ""}`;
}
