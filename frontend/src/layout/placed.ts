import { PORT, type SegmentLayouts } from "./segment";
import type { Frame, Line } from "./shapes";

/** Space inside a frame, and the height of its title. */
const [PAD, TITLE] = [12, 26];

/** Where a value crosses the upper or lower border of something placed. */
export interface Port {
  x: number;
  /** The edges that cross there. */
  edges: number[];
  /** Whether the reader stands at the border. */
  isEnd: boolean;
}

/** Boxes and frames with the lines between them; positions are relative to its upper left corner. */
export interface Placed {
  width: number;
  height: number;
  boxes: [leaf: number, x: number, y: number][];
  frames: [number: number, frame: Frame][];
  lines: Line[];
  /** By the leaf that makes the value. */
  ins: Map<number, Port>;
  outs: Map<number, Port>;
}

/** A value's way inside a segment, from an item or a port to another; see `SegmentShape`. */
export interface Link {
  /** The leaf that makes the value. */
  leaf: number;
  from: number;
  to: number;
  edges: number[];
}

/** A segment of one item, whose values come straight from above and leave straight below. */
export function alone(item: Placed, links: readonly Link[]): Placed {
  const [ins, outs] = [new Map<number, Port>(), new Map<number, Port>()];
  for (const { leaf, from, edges } of links) {
    const [ports, known] = from === 0 ? [outs, item.outs] : [ins, item.ins];
    ports.set(leaf, known.get(leaf) ?? { x: item.width / 2, edges, isEnd: true });
  }
  return { ...item, ins, outs };
}

/** A segment of several items, or with values that pass them. */
export function assemble(
  segments: SegmentLayouts,
  items: readonly Placed[],
  links: readonly Link[],
  ins: readonly { leaf: number }[],
  outs: readonly { leaf: number }[],
): Placed {
  const layout = segments.place({
    items: items.map(({ width, height }) => [width, height] as const),
    ...{ ins: ins.length, outs: outs.length, links: links.map(({ from, to }) => [from, to] as const) },
  });
  const lines = links.map(({ leaf, from, to, edges }, index): Line => {
    const points = [...(layout.links[index] ?? [])];
    const [source, target] = [items[from]?.outs.get(leaf), items[to]?.ins.get(leaf)];
    // Lines meet those inside open frames.
    if (source) points[0] = (layout.items[from]?.[0] ?? 0) + source.x;
    if (target) points[points.length - 2] = (layout.items[to]?.[0] ?? 0) + target.x;
    return { edges, points, isEnd: to < items.length && (target?.isEnd ?? true) && !target };
  });
  const inside = items.map((item, index) => shifted(item, ...(layout.items[index] ?? ([0, 0] as const))));
  const port = (x: number | undefined, of: readonly Link[]): Port => ({ x: x ?? 0, edges: of.flatMap((one) => one.edges), isEnd: false });
  return {
    ...{ width: layout.width, height: layout.height },
    boxes: inside.flatMap((one) => one.boxes),
    frames: inside.flatMap((one) => one.frames),
    lines: [...inside.flatMap((one) => one.lines), ...lines],
    ins: new Map(
      ins.map(({ leaf }, at) => [
        leaf,
        port(
          layout.ins[at],
          links.filter(({ from }) => from === items.length + at),
        ),
      ]),
    ),
    outs: new Map(
      outs.map(({ leaf }, at) => [
        leaf,
        port(
          layout.outs[at],
          links.filter(({ to }) => to === items.length + ins.length + at),
        ),
      ]),
    ),
  };
}

/** Adds a frame; values cross its border straight down. */
export function framed(inner: Placed, number: number): Placed {
  const [width, height] = [inner.width + 2 * PAD, inner.height + TITLE + PAD];
  const parts = shifted(inner, PAD, TITLE);
  const down = (ports: Map<number, Port>, from: number, to: number) =>
    [...ports.values()].map(({ x, edges, isEnd }): Line => ({ edges, points: [x, from, x, to], isEnd }));
  return {
    ...{ width, height, boxes: parts.boxes },
    frames: [[number, { x: 0, y: 0, width, height }], ...parts.frames],
    lines: [...parts.lines, ...down(parts.ins, 0, TITLE), ...down(noEnds(parts.outs), height - PAD, height)],
    ...{ ins: noEnds(parts.ins), outs: noEnds(parts.outs) },
  };
}

const noEnds = (ports: Map<number, Port>) => new Map([...ports].map(([leaf, port]) => [leaf, { ...port, isEnd: false }]));

export function shifted(placed: Placed, x: number, y: number): Placed {
  const moved = (ports: Map<number, Port>) => new Map([...ports].map(([leaf, port]) => [leaf, { ...port, x: port.x + x }]));
  return {
    ...{ width: placed.width, height: placed.height, ins: moved(placed.ins), outs: moved(placed.outs) },
    boxes: placed.boxes.map(([leaf, left, top]) => [leaf, left + x, top + y]),
    frames: placed.frames.map(([number, one]) => [number, { ...one, x: one.x + x, y: one.y + y }]),
    lines: placed.lines.map((line) => ({ ...line, points: line.points.map((one, index) => one + (index % 2 ? y : x)) })),
  };
}

/** The space that a segment keeps clear above and below its items itself. */
export const kept = (ports: Map<number, Port>): number => ([...ports.values()].some((port) => !port.isEnd) ? PORT : 0);
