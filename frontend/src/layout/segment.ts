import { Graph, layout } from "@dagrejs/dagre";

/** Space between boxes of a rank, between ranks, and beyond the first and the last rank. */
export const [GAP_X, GAP_Y, PORT] = [26, 36, 12];

/** Points of lines that are nearer to each other are left out. */
const SHARP = 26;

/** Items with the links between them, and ports for values that come from above or are read below. */
export interface SegmentShape {
  /** Widths and heights. */
  items: readonly (readonly [width: number, height: number])[];
  ins: number;
  outs: number;
  /** Numbers of items; ports above follow the items, then those below. */
  links: readonly (readonly [from: number, to: number])[];
}

export interface Segment {
  width: number;
  height: number;
  /** The upper left corners of items. */
  items: (readonly [x: number, y: number])[];
  ins: number[];
  outs: number[];
  /** The points of each link: x, y, x, y …. */
  links: number[][];
}

/** Lays segments out with dagre; equal ones once. */
export class SegmentLayouts {
  private readonly known = new Map<string, Segment>();

  place(shape: SegmentShape): Segment {
    const key = JSON.stringify(shape);
    const found = this.known.get(key) ?? layered(shape);
    this.known.set(key, found);
    return found;
  }
}

/** Ports stay on the first and the last rank by heavy edges to two nodes beyond them. */
function layered(shape: SegmentShape): Segment {
  const { items, ins, outs, links } = shape;
  const graph = new Graph();
  graph.setGraph({ ranksep: GAP_Y, nodesep: GAP_X, edgesep: 14 });
  items.forEach(([width, height], index) => {
    graph.setNode(String(index), { width, height });
  });
  const [firstIn, firstOut] = [items.length, items.length + ins];
  for (let port = firstIn; port < firstOut + outs; port++) graph.setNode(String(port), { width: 8, height: 0 });
  for (const [from, to] of links) graph.setEdge(String(from), String(to), {});
  if (ins > 0) anchor(graph, "top", firstIn, ins, (node) => ["top", node]);
  if (outs > 0) anchor(graph, "bottom", firstOut, outs, (node) => [node, "bottom"]);
  layout(graph);
  return positions(graph, shape);
}

function anchor(graph: Graph, name: string, first: number, count: number, edge: (node: string) => [string, string]): void {
  graph.setNode(name, { width: 0, height: 0 });
  const isFree = (node: string) => !(name === "top" ? graph.inEdges(node) : graph.outEdges(node))?.length;
  const free = graph.nodes().filter((node) => node !== "top" && node !== "bottom" && isFree(node));
  for (const node of free) {
    const isPort = Number(node) >= first && Number(node) < first + count;
    const [from, to] = edge(node);
    // Others may be further away than the ports, but not beyond them.
    graph.setEdge(from, to, isPort ? { weight: 100, minlen: 1 } : { weight: 0, minlen: 2 });
  }
}

function positions(graph: Graph, { items, ins, outs, links }: SegmentShape): Segment {
  const at = (node: number) => graph.node(String(node)) as { x: number; y: number };
  const corners = items.map(([width, height], index) => [at(index).x - width / 2, at(index).y - height / 2] as const);
  const top = Math.min(...corners.map(([, y]) => y)) - (ins ? PORT : 0);
  const bottom = Math.max(...corners.map(([, y], index) => y + (items[index]?.[1] ?? 0))) + (outs ? PORT : 0);
  const bounded = (y: number) => Math.min(Math.max(y, top), bottom) - top;
  const paths = links.map(([from, to]) => {
    const { points } = graph.edge(String(from), String(to)) as { points: { x: number; y: number }[] };
    const [source, target] = [items[from], items[to]];
    return [
      ...[at(from).x, source ? at(from).y + source[1] / 2 - top : bounded(at(from).y)],
      ...between(points, at(from).y + (source?.[1] ?? 0) / 2, at(to).y - (target?.[1] ?? 0) / 2).flatMap(({ x, y }) => [x, bounded(y)]),
      ...[at(to).x, target ? at(to).y - target[1] / 2 - top : bounded(at(to).y)],
    ];
  });
  const ports = (first: number, count: number) => Array.from({ length: count }, (_, index) => at(first + index).x);
  return moved(
    {
      ...{ width: 0, height: bottom - top, links: paths },
      items: corners.map(([x, y]) => [x, y - top] as const),
      ins: ports(items.length, ins),
      outs: ports(items.length + ins, outs),
    },
    items,
  );
}

/** The points of a link between its ends, without those so near to another that the line would turn sharply. */
function between(points: readonly { x: number; y: number }[], top: number, bottom: number): { x: number; y: number }[] {
  let last = top;
  return points.slice(1, -1).filter(({ y }) => {
    if (y - last < SHARP || bottom - y < SHARP) return false;
    last = y;
    return true;
  });
}

/** Moves a segment so that it begins at the left border. */
function moved(segment: Segment, sizes: SegmentShape["items"]): Segment {
  const ways = segment.links.flatMap((points) => points.filter((_, index) => index % 2 === 0));
  const left = Math.min(...segment.items.map(([x]) => x), ...ways);
  const right = Math.max(...segment.items.map(([x], index) => x + (sizes[index]?.[0] ?? 0)), ...ways);
  return {
    ...{ width: right - left, height: segment.height },
    items: segment.items.map(([x, y]) => [x - left, y]),
    ins: segment.ins.map((x) => x - left),
    outs: segment.outs.map((x) => x - left),
    links: segment.links.map((points) => points.map((value, index) => (index % 2 ? value : value - left))),
  };
}
