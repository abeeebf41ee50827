import type { GraphShape, PartShape } from "../layout/shapes";
import { type Fold, isFold, type Part } from "./folding";
import type { Row } from "./rows";

/** All values that operations in one box make and operations in another read. */
export interface Edge {
  from: number;
  to: number;
  values: { source: Row; reader: Row }[];
}

/** What a graph shows while some of its folds are open. */
export interface Drawing {
  /** The operations and closed folds, in the program's order. */
  boxes: Part[];
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
  const visit = (part: Part): PartShape => {
    if (isFold(part) && isOpen(part)) {
      frames.push(part);
      return part.parts.map(visit);
    }
    for (const row of rowsIn(part)) boxOf.set(row, boxes.length);
    boxes.push(part);
    return 0;
  };
  const shapes = parts.map(visit);
  const found = new Map<number, Edge>();
  for (const [reader, to] of boxOf) {
    for (const source of inputsOf(reader)) {
      const from = boxOf.get(source);
      if (from === undefined || from >= to) continue;
      const key = from * boxes.length + to;
      const edge = found.get(key) ?? { from, to, values: [] };
      found.set(key, edge);
      edge.values.push({ source, reader });
    }
  }
  return { boxes, frames, edges: [...found.values()], boxOf, parts: shapes };
}

/** The operations of a part. */
export const rowsIn = (part: Part): readonly Row[] => (isFold(part) ? part.rows : [part]);

/** What a worker needs to lay a drawing out. */
export function shapeOf({ parts, edges }: Drawing, aspect: number): GraphShape {
  return { parts, edges: edges.map(({ from, to }) => [from, to] as const), aspect };
}

/** The folds to open so that a graph shows at most so many boxes: always the largest that can be seen. */
export function opening(parts: readonly Part[], most: number): Set<string> {
  const open = new Set<string>();
  let shown = parts.length;
  const closed = parts.filter(isFold);
  while (closed.length > 0) {
    const largest = closed.reduce((best, one, index) => (one.rows.length > (closed[best]?.rows.length ?? 0) ? index : best), 0);
    const [fold] = closed.splice(largest, 1);
    if (!fold || shown + fold.parts.length - 1 > most) continue;
    shown += fold.parts.length - 1;
    open.add(fold.id);
    closed.push(...fold.parts.filter(isFold));
  }
  return open;
}
