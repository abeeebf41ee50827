import { expect, it } from "vitest";
import { draw } from "../../../src/data/drawing";
import { layOut } from "../../../src/layout/level";
import { SegmentLayouts } from "../../../src/layout/segment";
import { neighbour } from "../../../src/views/graph/steps";
import { rowsOf } from "../../fixtures";

/** 0 → 1 → 3 and 0 → 2 → 3. */
const rows = rowsOf(["a", "b", "c", "d"].map((name) => ["op", name]));
const inputs = [[], [0], [0], [1, 2]];
const drawing = draw(
  rows,
  () => true,
  (row) => (inputs[row.op] ?? []).flatMap((index) => rows[index] ?? []),
);
const positions = layOut(
  { parts: drawing.parts, edges: drawing.edges.map(({ from, to }) => [from, to] as const), aspect: 0.2 },
  new SegmentLayouts(),
);
const go = (from: number, key: Parameters<typeof neighbour>[3]) => neighbour(drawing, positions, from, key);

it("follows edges up and down, and goes to what is beside", () => {
  expect([go(0, "ArrowDown"), go(1, "ArrowDown"), go(3, "ArrowUp"), go(0, "ArrowUp")]).toEqual([1, 3, 2, null]);
  const [left, right] = (positions.boxes[2] ?? 0) < (positions.boxes[4] ?? 0) ? [1, 2] : [2, 1];
  expect([go(left, "ArrowRight"), go(right, "ArrowLeft"), go(left, "ArrowLeft")].slice(0, 2)).toEqual([right, left]);
});
