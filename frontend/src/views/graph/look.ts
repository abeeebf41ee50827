import type { Costs, CriticalPath } from "../../data/critical";
import { type Drawing, type Edge, rowsIn } from "../../data/drawing";
import { isFold, type Part } from "../../data/folding";
import type { Placement } from "../../data/placement";
import type { Row } from "../../data/rows";
import type { ComputeUnit } from "../../data/schema";
import { UNIT_NAMES } from "../../data/words";
import { plural, share } from "../../format";
import type { Line } from "../../layout/shapes";
import { nameOf } from "./names";

export const UNIT_ORDER: readonly ComputeUnit[] = ["neural_engine", "gpu", "cpu"];

/** What colours a part: its operations on each unit, and its share of all times. */
export interface Look {
  units: ReadonlyMap<ComputeUnit, number>;
  /** Null where units colour, or nothing has a time. */
  share: number | null;
  isCritical: boolean;
  /** Whether a search finds it, or something in it. */
  isFound: boolean;
}

/** What decides how parts and edges look. */
export interface Colours {
  /** All operations of the graph. */
  rows: readonly Row[];
  placement: Placement | null;
  /** Null where units colour. */
  costs: Costs | null;
  /** Null where it is not shown. */
  path: CriticalPath | null;
  found: ReadonlySet<Row>;
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
    this.total = this.seconds(colours.rows);
  }

  of(part: Part): Look {
    const found = this.known.get(part) ?? this.look(part);
    this.known.set(part, found);
    return found;
  }

  /** The unit that runs an operation; null where none is known. */
  unit(row: Row): ComputeUnit | null {
    return row.column >= 0 ? (this.colours.placement?.unit(row.column) ?? null) : null;
  }

  /** Whether a value of the edge goes from one unit to another. */
  isSwitch(edge: Edge): boolean {
    return edge.values.some(({ source, reader }) => {
      const [from, to] = [this.unit(source), this.unit(reader)];
      return from !== null && to !== null && from !== to;
    });
  }

  /** The class of a line; what several edges share changes the unit if all of them do. */
  lineClass({ edges }: Line, drawing: Drawing): "" | "edge-critical" | "edge-switch" {
    const all = edges.map((index) => drawing.edges[index]).filter((one) => one !== undefined);
    if (all.some((edge) => edge.values.some(({ source, reader }) => this.next.get(source) === reader))) return "edge-critical";
    return all.length > 0 && all.every((edge) => this.isSwitch(edge)) ? "edge-switch" : "";
  }

  private look(part: Part): Look {
    const rows = rowsIn(part);
    const units = new Map<ComputeUnit, number>();
    for (const row of rows) {
      const unit = this.unit(row);
      if (unit) units.set(unit, (units.get(unit) ?? 0) + 1);
    }
    const { costs, found } = this.colours;
    return {
      ...{ units, share: costs && this.total > 0 ? this.seconds(rows) / this.total : null },
      isCritical: rows.some((row) => this.critical.has(row)),
      isFound: rows.some((row) => found.has(row)),
    };
  }

  /** The time of a group is never split: it counts where its first operation is. */
  private seconds(rows: readonly Row[]): number {
    const { costs } = this.colours;
    let sum = 0;
    for (const row of rows)
      for (const group of costs?.groupsOf.get(row) ?? []) if (costs?.firstOf[group] === row) sum += costs.seconds[group] ?? 0;
    return sum;
  }
}

/** Operations that read a value of another unit. */
export function readersAcrossUnits(rows: readonly Row[], inputsOf: (row: Row) => Row[], looks: Looks): Row[] {
  return rows.filter((row) => {
    const unit = looks.unit(row);
    return inputsOf(row).some((input) => unit !== null && looks.unit(input) !== null && looks.unit(input) !== unit);
  });
}

/** A part in words: `conv, stem (main/0): fp16 1×32×112×112; on the Neural Engine`. */
export function wordsOf(part: Part, look: Look): string {
  const units = UNIT_ORDER.filter((unit) => look.units.has(unit)).map((unit) =>
    isFold(part) ? `${look.units.get(unit)} on the ${UNIT_NAMES[unit]}` : `on the ${UNIT_NAMES[unit]}`,
  );
  const cost = look.share === null ? [] : [share(look.share)];
  const critical = look.isCritical ? ["on the critical path"] : [];
  const more = [...units, ...cost, ...critical].map((text) => `; ${text}`).join("");
  if (isFold(part)) return `${part.title}: ${plural(part.rows.length, "operation")}${more}`;
  return `${part.layerType || part.type}, ${nameOf(part)} (${part.id}): ${part.output}${more}`;
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

/** `1×32×112×112` of the values that leave a box; empty where there are several. */
export function shapeLabel(values: Edge["values"]): string {
  const types = new Set(values.map(({ source }) => source.output));
  const [only] = types;
  if (types.size !== 1 || only === undefined) return types.size > 1 ? plural(types.size, "shape") : "";
  return only.replace(/^fp(16|32) /, "");
}
