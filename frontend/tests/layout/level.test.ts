import { describe, expect, it } from "vitest";
import { layOut } from "../../src/layout/level";
import { SegmentLayouts } from "../../src/layout/segment";
import { HEIGHT, type PartShape, type Positions, WIDTH } from "../../src/layout/shapes";

type Edges = [number, number][];

const place = (parts: PartShape[], edges: Edges, aspect = 2): Positions => layOut({ parts, edges, aspect }, new SegmentLayouts());
const leaves = (count: number): PartShape[] => new Array<PartShape>(count).fill(0);
const chain = (count: number): Edges => Array.from({ length: count - 1 }, (_, index) => [index, index + 1]);
const corner = ({ boxes }: Positions, index: number) => ({ x: boxes[index * 2] ?? Number.NaN, y: boxes[index * 2 + 1] ?? Number.NaN });

/** Everything that holds of each drawing: nothing overlaps, nothing is outside, and each edge is drawn to its ends or named as far. */
function expectSound(found: Positions, edges: Edges): void {
  const count = found.boxes.length / 2;
  const corners = Array.from({ length: count }, (_, index) => corner(found, index));
  corners.forEach((a, index) => {
    expect(a.x).toBeGreaterThanOrEqual(0);
    expect(a.y).toBeGreaterThanOrEqual(0);
    expect(a.x + WIDTH).toBeLessThanOrEqual(found.width);
    expect(a.y + HEIGHT).toBeLessThanOrEqual(found.height);
    for (const b of corners.slice(index + 1)) expect(Math.abs(a.x - b.x) >= WIDTH || Math.abs(a.y - b.y) >= HEIGHT).toBe(true);
  });
  edges.forEach(([from, to], edge) => {
    const lines = found.lines.filter((line) => line.edges.includes(edge));
    if (found.far.includes(edge)) return;
    const [source, target] = [corner(found, from), corner(found, to)];
    // Some line leaves the source below, or begins at the very reader where both touch a border; the last ends above the reader.
    expect(lines.some(({ points }) => points[0] === source.x + WIDTH / 2 && points[1] === source.y + HEIGHT)).toBe(true);
    const ends = lines.filter((line) => line.isEnd).map(({ points }) => points.slice(-2));
    expect(ends.some(([x, y]) => Math.abs((x ?? 0) - target.x - WIDTH / 2) < 1 && y === target.y)).toBe(true);
    // And the lines meet: each begins at the source or where another ends.
    const joints = new Set(lines.map(({ points }) => points.slice(-2).map(Math.round).join()));
    for (const { points } of lines) {
      const isFirst = points[0] === source.x + WIDTH / 2 && points[1] === source.y + HEIGHT;
      expect(isFirst || joints.has(points.slice(0, 2).map(Math.round).join())).toBe(true);
    }
  });
}

describe("layOut", () => {
  it("gives an empty graph a size that can be drawn", () => {
    const found = place([], []);
    expect(found).toMatchObject({ frames: [], lines: [], far: [] });
    expect(found.boxes).toHaveLength(0);
    expect(found.width).toBeGreaterThan(0);
    expect(found.height).toBeGreaterThan(0);
  });

  it("stacks a short chain in one column where the view is tall", () => {
    const found = place(leaves(3), chain(3), 0.1);
    expectSound(found, chain(3));
    expect(new Set([0, 1, 2].map((index) => corner(found, index).x)).size).toBe(1);
    expect([0, 1, 2].map((index) => corner(found, index).y)).toEqual(
      [0, 1, 2].map((index) => corner(found, index).y).sort((a, b) => a - b),
    );
  });

  it("puts a long chain in columns about as wide as the view", () => {
    const found = place(leaves(60), chain(60), 2);
    expectSound(found, chain(60));
    expect(found.width / found.height).toBeGreaterThan(1.2);
    expect(found.width / found.height).toBeLessThan(3);
  });

  it("draws branches side by side and a residual around them", () => {
    const edges: Edges = [
      [0, 1],
      [0, 2],
      [1, 3],
      [2, 3],
      [0, 3],
    ];
    const found = place(leaves(4), edges, 0.5);
    expectSound(found, edges);
    expect(corner(found, 1).y).toBe(corner(found, 2).y);
    expect(found.far).toEqual([]);
  });

  it("leads values into frames and out of them", () => {
    const edges: Edges = [...chain(7), [0, 4], [2, 6]];
    const found = place([0, [0, [0, 0], 0], 0, 0], edges, 1);
    expectSound(found, edges);
    const [outer, inner] = found.frames;
    for (const index of [1, 2, 3, 4]) {
      expect(corner(found, index).x).toBeGreaterThan(outer?.x ?? Number.NaN);
      expect(corner(found, index).y + HEIGHT).toBeLessThan((outer?.y ?? Number.NaN) + (outer?.height ?? 0));
    }
    expect(inner?.y).toBeGreaterThan(outer?.y ?? Number.NaN);
    expect(inner?.width).toBeLessThan(outer?.width ?? 0);
  });

  it("names values that many far layers read instead of drawing bundles of lines", () => {
    const masks: Edges = [0, 1, 2, 3, 4].flatMap((mask) => [20, 40, 60, 80].map((layer): [number, number] => [mask, layer]));
    const edges = [...chain(90), ...masks];
    const found = place(leaves(90), edges, 2);
    expectSound(found, edges);
    const far = found.far.map((edge) => edges[edge]);
    expect(far.length).toBeGreaterThan(0);
    expect(far.every((edge) => edge && edge[1] - edge[0] > 10)).toBe(true);
    // The others have lines beside each other.
    expect(new Set(masks.filter((edge) => !far.includes(edge)).map(([mask]) => mask)).size).toBeGreaterThan(0);
  });

  it("is the same for the same graph, and lays equal layers out once", () => {
    const layer = (first: number): Edges => [
      [first, first + 1],
      [first, first + 2],
      [first + 1, first + 3],
      [first + 2, first + 3],
      [first + 3, first + 4],
    ];
    const edges = Array.from({ length: 12 }, (_, index) => layer(index * 4)).flat();
    const [a, b] = [place(leaves(49), edges), place(leaves(49), edges)];
    expectSound(a, edges);
    expect([...a.boxes]).toEqual([...b.boxes]);
    const offsets = [0, 4, 8].map((first) => corner(a, first + 2).x - corner(a, first + 1).x);
    expect(new Set(offsets).size).toBe(1);
  });
});
