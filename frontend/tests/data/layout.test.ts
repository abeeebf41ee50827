import { describe, expect, it } from "vitest";
import { fold, isFold } from "../../src/data/folding";
import { HEIGHT, type Layout, layOut, WIDTH } from "../../src/data/layout";
import type { Row } from "../../src/data/rows";
import { rowsOf } from "../fixtures";

/** Lays out rows whose inputs are given as indices; everything is open unless a test says otherwise. */
function layOutRows(inputs: readonly (readonly number[])[], isOpen = true): Layout {
  const rows = rowsOf(inputs.map(() => ["op", "x"]));
  return layOut(rows, () => isOpen, inputsOf(rows, inputs));
}

const inputsOf = (rows: readonly Row[], inputs: readonly (readonly number[])[]) => (row: Row) =>
  (inputs[row.op] ?? []).map((index) => rows[index]).filter((one) => one !== undefined);

const ranks = (layout: Layout): number[] => layout.boxes.map((box) => box.rank);

describe("layOut", () => {
  it("gives an empty graph a size that can be drawn", () => {
    const layout = layOut(
      [],
      () => false,
      () => [],
    );
    expect(layout).toMatchObject({ boxes: [], edges: [], frames: [] });
    expect(layout.width).toBeGreaterThan(0);
    expect(layout.height).toBeGreaterThan(0);
  });

  it("stacks a chain in one column", () => {
    const layout = layOutRows([[], [0], [1]]);
    expect(ranks(layout)).toEqual([0, 1, 2]);
    expect(new Set(layout.boxes.map((box) => box.x)).size).toBe(1);
    expect(layout.edges.map(({ from, to }) => [from.part.id, to.part.id])).toEqual([
      ["main/0", "main/1"],
      ["main/1", "main/2"],
    ]);
  });

  it("ranks by the longest way: a skip connection does not lift its reader", () => {
    expect(ranks(layOutRows([[], [0], [1], [0, 2]]))).toEqual([0, 1, 2, 3]);
  });

  it("keeps boxes of one rank apart and all of them inside the drawing", () => {
    const layout = layOutRows([[], [0], [0], [0], [1, 2, 3], [], []]);
    for (const a of layout.boxes) {
      expect(a.x).toBeGreaterThanOrEqual(0);
      expect(a.x + WIDTH).toBeLessThanOrEqual(layout.width);
      expect(a.y + HEIGHT).toBeLessThanOrEqual(layout.height);
      for (const b of layout.boxes) if (a !== b && a.rank === b.rank) expect(Math.abs(a.x - b.x)).toBeGreaterThanOrEqual(WIDTH);
    }
  });

  it("draws one edge for a value that is read twice", () => {
    expect(layOutRows([[], [0, 0]]).edges).toHaveLength(1);
  });
});

describe("folds", () => {
  const inputs = [[], [0], [1], [2], [3]];
  const rows = rowsOf(["a/x", "a/y", "a/z", "b", "a/q"].map((name) => ["op", name]));
  const parts = fold(rows);

  it("draws a closed fold as one box, without edges inside it", () => {
    const layout = layOut(parts, () => false, inputsOf(rows, inputs));
    expect(layout.boxes).toHaveLength(3);
    expect(layout.frames).toEqual([]);
    expect(layout.edges).toHaveLength(2);
    expect(layout.edges[0]?.from.part).toSatisfy(isFold);
  });

  it("draws a frame around the parts of an open fold", () => {
    const layout = layOut(parts, () => true, inputsOf(rows, inputs));
    expect(layout.boxes).toHaveLength(5);
    const frame = layout.frames[0];
    for (const box of layout.boxes.slice(0, 3)) {
      expect(box.x).toBeGreaterThan(frame?.x ?? Number.POSITIVE_INFINITY);
      expect(box.y + HEIGHT).toBeLessThan((frame?.y ?? 0) + (frame?.height ?? 0));
    }
  });
});
