import { kept, type Placed, type Port, shifted } from "./placed";
import { GAP_Y } from "./segment";
import type { Line } from "./shapes";

/** Between columns, and between the lines of values that go from one to the next. */
const [GAP, LANE] = [44, 8];
const MOST_COLUMNS = 40;

/** One column of segments, with the y of each. */
interface Column {
  first: number;
  end: number;
  width: number;
  height: number;
  tops: number[];
}

/** What columns are made for: width by height of the whole, or the height of a frame. */
export type Wanted = { aspect: number } | { height: number };

/** Stacks segments in columns, which are read one after the other. */
export function inColumns(segments: readonly Placed[], wanted: Wanted): Placed {
  const columns = "aspect" in wanted ? bestColumns(segments, wanted.aspect) : lowColumns(segments, wanted.height);
  const height = Math.max(0, ...columns.map((one) => one.height));
  const lefts: number[] = [];
  let next = 0;
  columns.forEach((column, index) => {
    lefts.push(next);
    next += column.width + (index + 1 < columns.length ? gapAfter(segments, column) : 0);
  });
  const placed = columns.flatMap((column, index) =>
    segments.slice(column.first, column.end).map((one, place) => ({
      one: shifted(one, (lefts[index] ?? 0) + (column.width - one.width) / 2, column.tops[place] ?? 0),
      column: index,
    })),
  );
  const lines = placed.flatMap(({ one }) => one.lines);
  placed.slice(1).forEach(({ one, column }, index) => {
    const before = placed[index];
    if (!before) return;
    const [above, below] = [topOf(columns, index) + before.one.height, topOf(columns, index + 1)];
    const right = before.column === column ? null : (lefts[before.column] ?? 0) + (columns[before.column]?.width ?? 0);
    lines.push(...connected(before.one.outs, one.ins, above, below, right));
  });
  const [first, last] = [placed[0]?.one, placed.at(-1)?.one];
  const outs = new Map(last?.outs);
  const end = columns.at(-1)?.height ?? 0;
  if (end < height) for (const { x, edges } of outs.values()) lines.push({ edges, points: [x, end, x, height], isEnd: false });
  return {
    ...{ width: Math.max(0, next), height, lines, ins: new Map(first?.ins), outs },
    boxes: placed.flatMap(({ one }) => one.boxes),
    frames: placed.flatMap(({ one }) => one.frames),
  };
}

function topOf(columns: readonly Column[], segment: number): number {
  const column = columns.find((one) => segment < one.end);
  return column?.tops[segment - column.first] ?? 0;
}

/** The lines of values from one segment to the next; around the lower and upper ends where it begins a new column. */
function connected(outs: Map<number, Port>, ins: Map<number, Port>, above: number, below: number, right: number | null): Line[] {
  return [...outs].flatMap(([leaf, { x, edges }], index): Line[] => {
    const to = ins.get(leaf);
    if (!to) return [];
    if (right === null) return [{ edges, points: [x, above, to.x, below], isEnd: to.isEnd }];
    const [low, high, middle] = [above + 10 + LANE * index, below - 10 - LANE * index, right + 16 + LANE * index];
    return [{ edges, points: [x, above, x, low, middle, low, middle, high, to.x, high, to.x, below], isEnd: to.isEnd }];
  });
}

const gapAfter = (segments: readonly Placed[], column: Column): number => GAP + LANE * (segments[column.end - 1]?.outs.size ?? 0);

function lowColumns(segments: readonly Placed[], height: number): Column[] {
  const all = stacked(segments, Number.POSITIVE_INFINITY);
  const tall = all[0]?.height ?? 0;
  return tall <= height * 1.25 ? all : stacked(segments, tall / Math.ceil(tall / height));
}

/** The columns with which the whole is shown largest. */
function bestColumns(segments: readonly Placed[], aspect: number): Column[] {
  let best = stacked(segments, Number.POSITIVE_INFINITY);
  const tall = best[0]?.height ?? 0;
  let least = size(best, aspect);
  for (let count = 2; count <= Math.min(MOST_COLUMNS, segments.length); count++) {
    const columns = stacked(segments, tall / count);
    const one = size(columns, aspect);
    if (one < least * 0.97) [best, least] = [columns, one];
  }
  return best;
}

/** The larger of the height and of the width at the wanted ratio of both. */
function size(columns: readonly Column[], aspect: number): number {
  const width = columns.reduce((sum, one) => sum + one.width + GAP, -GAP);
  return Math.max(width / aspect, ...columns.map((one) => one.height));
}

/** Fills columns up to about a height. */
function stacked(segments: readonly Placed[], wanted: number): Column[] {
  const columns: Column[] = [];
  let column: Column | null = null;
  segments.forEach((one, index) => {
    const gap: number = column && index > column.first ? between(segments[index - 1], one) : 0;
    const isFull: boolean = column !== null && column.height + gap + one.height / 2 > wanted;
    if (!column || isFull) {
      // The lines from the column before come in above.
      const top = columns.length > 0 ? 20 + LANE * one.ins.size : 0;
      column = { first: index, end: index + 1, width: one.width, height: top + one.height, tops: [top] };
      columns.push(column);
      return;
    }
    column.tops.push(column.height + gap);
    column.height += gap + one.height;
    column.width = Math.max(column.width, one.width);
    column.end = index + 1;
  });
  columns.forEach((one, index) => {
    // The lines to the next column leave below.
    if (index + 1 < columns.length) one.height += 12 + LANE * (segments[one.end - 1]?.outs.size ?? 0);
  });
  return columns;
}

const between = (above: Placed | undefined, below: Placed): number => Math.max(GAP_Y - kept(above?.outs ?? new Map()) - kept(below.ins), 8);
