import type { GraphShape, PartShape } from "../layout/shapes";
import { type Fold, isFold, isMixed, type Part, type Sameness, shownParts } from "./folding";
import type { Row } from "./rows";

/** All values that operations in one box make and operations in another read. */
export interface Edge {
  from: number;
  to: number;
  values: { source: Row; reader: Row }[];
}

/** What a graph shows while some of its folds are open. */
export interface Drawing {
  /** The operations and closed folds, in the program's order. Of equal blocks only the first is drawn. */
  boxes: Part[];
  /** The operations that a box or a frame stands for: those of all equal blocks. */
  rowsOf: ReadonlyMap<Part, readonly Row[]>;
  /** The open folds, outer ones first. */
  frames: Fold[];
  /** By the numbers of boxes. */
  edges: Edge[];
  /** The box that holds each operation. */
  boxOf: ReadonlyMap<Row, number>;
  parts: PartShape[];
}

/** Finds the boxes, frames and edges of a graph. */
export function draw(parts: readonly Part[], isOpen: (fold: Fold) => boolean, inputsOf: (row: Row) => Row[]): Drawing {
  const [boxes, frames, boxOf]: [Part[], Fold[], Map<Row, number>] = [[], [], new Map()];
  const rowsOf = new Map<Part, readonly Row[]>();
  /** For each fold that is drawn once: the number of the block that each operation is in. */
  const blocks: Map<Row, number>[] = [];
  const visit = (part: Part, all: (row: Row) => readonly Row[]): PartShape => {
    if (isFold(part) && isOpen(part)) {
      frames.push(part);
      rowsOf.set(part, part.rows.flatMap(all));
      if (!part.times) return part.parts.map((one) => visit(one, all));
      const length = part.rows.length / part.times;
      const places = new Map(part.rows.slice(0, length).map((row, place) => [row, place]));
      const each = (row: Row) => part.rows.filter((_, place) => place % length === places.get(row)).flatMap(all);
      blocks.push(new Map(part.rows.flatMap((row, place) => all(row).map((one) => [one, Math.floor(place / length)] as const))));
      return shownParts(part).map((one) => visit(one, each));
    }
    const inside = rowsIn(part).flatMap(all);
    for (const row of inside) boxOf.set(row, boxes.length);
    rowsOf.set(part, inside);
    boxes.push(part);
    return 0;
  };
  const shapes = parts.map((part) => visit(part, (row) => [row]));
  const isWithinOne = (source: Row, reader: Row) =>
    blocks.every((of) => !of.has(source) || !of.has(reader) || of.get(source) === of.get(reader));
  const found = new Map<number, Edge>();
  for (const [reader, to] of boxOf) {
    for (const source of inputsOf(reader)) {
      const from = boxOf.get(source);
      if (from === undefined || from >= to || !isWithinOne(source, reader)) continue;
      const key = from * boxes.length + to;
      const edge = found.get(key) ?? { from, to, values: [] };
      found.set(key, edge);
      edge.values.push({ source, reader });
    }
  }
  return { boxes, rowsOf, frames, edges: [...found.values()], boxOf, parts: shapes };
}

/** The operations of a part. */
export const rowsIn = (part: Part): readonly Row[] => (isFold(part) ? part.rows : [part]);

/** What a worker needs to lay a drawing out. */
export function shapeOf({ parts, edges }: Drawing, aspect: number): GraphShape {
  return { parts, edges: edges.map(({ from, to }) => [from, to] as const), aspect };
}

/** The folds to open so that a graph shows at most so many boxes: always the largest that can be seen. What runs on several units is open. */
export function opening(parts: readonly Part[], most: number, unit: Sameness["unit"] = () => null): Set<string> {
  const open = new Set<string>();
  let shown = parts.length;
  const closed = parts.filter(isFold);
  while (closed.length > 0) {
    const largest = closed.reduce((best, one, index) => (one.rows.length > (closed[best]?.rows.length ?? 0) ? index : best), 0);
    const [fold] = closed.splice(largest, 1);
    if (!fold) break;
    const inner = shownParts(fold);
    if (shown + inner.length - 1 > most && !isMixed(fold.rows, unit)) continue;
    shown += inner.length - 1;
    open.add(fold.id);
    closed.push(...inner.filter(isFold));
  }
  return open;
}
