import { inColumns, type Wanted } from "./columns";
import { cut } from "./cuts";
import { route, type Value } from "./far";
import { alone, assemble, framed, type Link, type Placed } from "./placed";
import type { SegmentLayouts } from "./segment";
import { type Frame, type GraphShape, HEIGHT, type PartShape, type Positions, WIDTH } from "./shapes";

/** The margin around the whole. */
const MARGIN = 16;
/** The least height of frames of several columns. */
const LOW = 420;

/** One part at a level, with its leaves `first` to `end`, and the number of its frame. */
interface Bounds {
  part: PartShape;
  first: number;
  end: number;
  number: number;
}

/** Heights of frames to try, as parts of the height of a square of all boxes. */
const HEIGHTS = [0.5, 0.75, 1.1, 1.6];
/** Of graphs with more boxes, one height is tried. */
const MANY = 400;
/** The area that a box takes with the space around it. */
const AREA = (WIDTH + 50) * (HEIGHT + 50);

/**
 * Puts every part of a graph in its place: consumers below producers, in columns that are read one after the other. Of several
 * arrangements, the one that is shown largest is taken.
 */
export function layOut(shape: GraphShape, segments: SegmentLayouts): Positions {
  const count = shape.parts.reduce<number>((sum, part) => sum + leaves(part), 0);
  const height = Math.sqrt((count * AREA) / shape.aspect);
  const tried = (count > MANY || count === shape.parts.length ? [1] : HEIGHTS).map((factor) =>
    arranged(shape, segments, Math.max(height * factor, LOW)),
  );
  const size = (one: Positions) => Math.max(one.width / shape.aspect, one.height);
  return tried.reduce((best, one) => (size(one) < size(best) ? one : best));
}

function arranged(shape: GraphShape, segments: SegmentLayouts, frameHeight: number): Positions {
  const level = new Level(shape, segments, frameHeight);
  const all = shape.edges.map((_, index) => index);
  const placed = level.place(shape.parts, 0, 0, all, { aspect: shape.aspect });
  const boxes = new Float64Array(placed.boxes.length * 2);
  for (const [leaf, x, y] of placed.boxes) boxes.set([x + MARGIN, y + MARGIN], leaf * 2);
  const frames: Frame[] = [];
  for (const [number, frame] of placed.frames) frames[number] = { ...frame, x: frame.x + MARGIN, y: frame.y + MARGIN };
  return {
    ...{ boxes, frames, width: placed.width + 2 * MARGIN, height: placed.height + 2 * MARGIN, far: level.far },
    lines: placed.lines.map((line) => ({ ...line, points: line.points.map((one) => one + MARGIN) })),
  };
}

class Level {
  /** The edges without lines. */
  readonly far: number[] = [];

  constructor(
    private readonly shape: GraphShape,
    private readonly segments: SegmentLayouts,
    private readonly frameHeight: number,
  ) {}

  /** Lays out parts whose leaves and frames are numbered from `leaf` and `frame`; `edges` touch one of the leaves. */
  place(parts: readonly PartShape[], leaf: number, frame: number, edges: readonly number[], wanted: Wanted): Placed {
    const bounds = boundsOf(parts, leaf, frame);
    const routed = route(this.values(bounds, edges), bounds.length, (index) => this.shape.edges[index] ?? [0, 0]);
    const far = new Set(routed.far);
    this.far.push(...far);
    const items = this.items(bounds, far.size > 0 ? edges.filter((edge) => !far.has(edge)) : edges);
    const boxes = (from: number, to: number) => (bounds[to - 1]?.end ?? 0) - (bounds[from]?.first ?? 0);
    const starts = cut(
      items.length,
      routed.values.filter((one) => !routed.long.has(one)),
      boxes,
    );
    const segments = starts.map((first, index) => this.segment(items, routed.values, first, starts[index + 1] ?? items.length));
    return inColumns(segments, wanted);
  }

  private items(bounds: readonly Bounds[], edges: readonly number[]): Placed[] {
    const owner = itemsOf(bounds);
    const touching = bounds.map((): number[] => []);
    for (const edge of edges) {
      const [from, to] = this.shape.edges[edge] ?? [0, 0];
      const ends = new Set([owner.get(from), owner.get(to)]);
      for (const index of ends) if (index !== undefined) touching[index]?.push(edge);
    }
    return bounds.map(({ part, first, number }, index) => {
      if (part === 0) return box(first);
      return framed(this.place(part, first, number + 1, touching[index] ?? [], { height: this.frameHeight }), number);
    });
  }

  /** The values that go from one item to another, or across the border of the level. */
  private values(bounds: readonly Bounds[], edges: readonly number[]): Value[] {
    const itemOf = itemsOf(bounds);
    const found = new Map<number, Value>();
    for (const edge of edges) {
      const [leaf, to] = this.shape.edges[edge] ?? [0, 0];
      const from = itemOf.get(leaf) ?? -1;
      const reader = itemOf.get(to) ?? bounds.length;
      if (from === reader) continue;
      const value = found.get(leaf) ?? { leaf, from, until: reader, readers: new Map<number, number[]>() };
      found.set(leaf, value);
      value.until = Math.max(value.until, reader);
      const known = value.readers.get(reader);
      if (known) known.push(edge);
      else value.readers.set(reader, [edge]);
    }
    return [...found.values()];
  }

  private segment(items: readonly Placed[], values: readonly Value[], first: number, end: number): Placed {
    const inside = items.slice(first, end);
    const ins = values.filter((one) => one.from < first && one.until >= first);
    const outs = values.filter((one) => one.from < end && one.until >= end);
    const links: Link[] = [];
    for (const value of values) {
      if (value.from >= end || value.until < first) continue;
      const above = ins.indexOf(value);
      const from = above < 0 ? value.from - first : inside.length + above;
      const link = (to: number, edges: number[]) => links.push({ leaf: value.leaf, from, to, edges });
      for (const [reader, edges] of value.readers) if (reader >= first && reader < end) link(reader - first, edges);
      if (outs.includes(value)) link(inside.length + ins.length + outs.indexOf(value), beyond(value, end));
    }
    const [only] = inside;
    const isAlone = links.every(({ from, to }) => from === 0 || to === 0);
    return inside.length === 1 && only && isAlone ? alone(only, links) : assemble(this.segments, inside, links, ins, outs);
  }
}

function boundsOf(parts: readonly PartShape[], leaf: number, frame: number): Bounds[] {
  let [next, nextFrame] = [leaf, frame];
  return parts.map((part) => {
    const [first, number] = [next, nextFrame];
    next += leaves(part);
    nextFrame += frames(part);
    return { part, first, end: next, number };
  });
}

/** The item that holds each leaf. */
function itemsOf(bounds: readonly Bounds[]): Map<number, number> {
  const found = new Map<number, number>();
  bounds.forEach(({ first, end }, index) => {
    for (let leaf = first; leaf < end; leaf++) found.set(leaf, index);
  });
  return found;
}

/** The edges of a value to readers from an item on. */
const beyond = (value: Value, item: number): number[] => [...value.readers].flatMap(([reader, edges]) => (reader >= item ? edges : []));

const leaves = (part: PartShape): number => (part === 0 ? 1 : part.reduce<number>((sum, one) => sum + leaves(one), 0));
const frames = (part: PartShape): number => (part === 0 ? 0 : part.reduce<number>((sum, one) => sum + frames(one), 1));

function box(leaf: number): Placed {
  return { width: WIDTH, height: HEIGHT, boxes: [[leaf, 0, 0]], frames: [], lines: [], ins: new Map(), outs: new Map() };
}
