import { type Fold, isFold, type Part } from "./folding";
import type { Row } from "./rows";

export const [WIDTH, HEIGHT] = [196, 60];
const [GAP_X, GAP_Y, MARGIN] = [26, 34, 14];

/** A part of the graph and its position; lengths are in units of the drawing. */
export interface Box {
  part: Part;
  x: number;
  y: number;
  rank: number;
}

export interface Edge {
  from: Box;
  to: Box;
}

/** The frame around the parts of an open fold. */
export interface Frame {
  fold: Fold;
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface Layout {
  boxes: Box[];
  edges: Edge[];
  frames: Frame[];
  width: number;
  height: number;
}

/** Lays the graph out from top to bottom: consumers are below their producers. */
export function layOut(parts: readonly Part[], isOpen: (fold: Fold) => boolean, inputsOf: (row: Row) => Row[]): Layout {
  const boxes: Box[] = [];
  const boxOf = new Map<Row, Box>();
  const opened: { fold: Fold; from: number; to: number }[] = [];
  const visit = (part: Part): void => {
    if (isFold(part) && isOpen(part)) {
      const from = boxes.length;
      const place = opened.push({ fold: part, from, to: from }) - 1;
      part.parts.forEach(visit);
      const frame = opened[place];
      if (frame) frame.to = boxes.length;
      return;
    }
    const box: Box = { part, x: 0, y: 0, rank: 0 };
    boxes.push(box);
    for (const row of isFold(part) ? part.rows : [part]) boxOf.set(row, box);
  };
  parts.forEach(visit);
  const sources = new Map(boxes.map((box) => [box, sourcesOf(box, boxOf, inputsOf)]));
  place(boxes, sources);
  const edges = boxes.flatMap((to) => [...(sources.get(to) ?? [])].map((from) => ({ from, to })));
  const left = Math.min(0, ...boxes.map((box) => box.x));
  for (const box of boxes) box.x += MARGIN - left;
  const frames = opened.map(({ fold, from, to }) => frameOf(fold, boxes.slice(from, to)));
  return {
    boxes,
    edges,
    frames,
    width: Math.max(0, ...boxes.map((box) => box.x)) + WIDTH + MARGIN,
    height: Math.max(0, ...boxes.map((box) => box.y)) + HEIGHT + MARGIN,
  };
}

function sourcesOf(box: Box, boxOf: Map<Row, Box>, inputsOf: (row: Row) => Row[]): Set<Box> {
  const found = new Set<Box>();
  for (const row of isFold(box.part) ? box.part.rows : [box.part]) {
    for (const input of inputsOf(row)) {
      const source = boxOf.get(input);
      if (source && source !== box) found.add(source);
    }
  }
  return found;
}

/** Ranks boxes by the longest path from a source and centres them below their inputs. Folds of neighbours form no cycles. */
function place(boxes: readonly Box[], sources: Map<Box, Set<Box>>): void {
  const ranks: Box[][] = [];
  for (const box of boxes) {
    box.rank = Math.max(-1, ...[...(sources.get(box) ?? [])].map((source) => source.rank)) + 1;
    const rank = ranks[box.rank];
    if (rank) rank.push(box);
    else ranks[box.rank] = [box];
  }
  ranks.forEach((rank, index) => {
    const wanted = new Map(rank.map((box) => [box, middleOf([...(sources.get(box) ?? [])])]));
    rank.sort((a, b) => (wanted.get(a) ?? 0) - (wanted.get(b) ?? 0));
    let [next, drift] = [-Infinity, 0];
    for (const box of rank) {
      const ideal = wanted.get(box) ?? 0;
      box.x = Math.max(ideal, next);
      drift += box.x - ideal;
      next = box.x + WIDTH + GAP_X;
    }
    for (const box of rank) {
      box.x -= drift / rank.length;
      box.y = MARGIN + index * (HEIGHT + GAP_Y);
    }
  });
}

function middleOf(boxes: readonly Box[]): number {
  // Only the inputs of the highest rank count: edges that skip ranks do not pull.
  const near = boxes.filter((box) => box.rank === Math.max(...boxes.map((one) => one.rank)));
  return near.length ? near.reduce((sum, box) => sum + box.x, 0) / near.length : 0;
}

function frameOf(fold: Fold, inside: readonly Box[]): Frame {
  const [left, top] = [Math.min(...inside.map((box) => box.x)), Math.min(...inside.map((box) => box.y))];
  const [right, bottom] = [Math.max(...inside.map((box) => box.x)) + WIDTH, Math.max(...inside.map((box) => box.y)) + HEIGHT];
  const pad = 9;
  return { fold, x: left - pad, y: top - pad, width: right - left + 2 * pad, height: bottom - top + 2 * pad };
}
