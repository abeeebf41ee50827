import { describe, expect, it } from "vitest";
import { draw, opening, shapeOf } from "../../src/data/drawing";
import { fold, folds, isFold } from "../../src/data/folding";
import type { Row } from "../../src/data/rows";
import { rowsOf } from "../fixtures";

const inputsOf = (rows: readonly Row[], inputs: readonly (readonly number[])[]) => (row: Row) =>
  (inputs[row.op] ?? []).map((index) => rows[index]).filter((one) => one !== undefined);

describe("draw", () => {
  const rows = rowsOf(["a/x", "a/y", "a/z", "b", "a/q"].map((name) => ["op", name]));
  const inputs = inputsOf(rows, [[], [0], [1], [2, 0], [3, 1]]);
  const parts = fold(rows, inputs);

  it("draws a closed fold as one box, with all values between two boxes as one edge", () => {
    const drawing = draw(parts, () => false, inputs);
    expect(drawing.boxes.map((part) => isFold(part))).toEqual([true, false, false]);
    expect(drawing.edges.map(({ from, to, values }) => [from, to, values.length])).toEqual([
      [0, 1, 2],
      [1, 2, 1],
      [0, 2, 1],
    ]);
    expect(shapeOf(drawing, 2)).toEqual({
      parts: [0, 0, 0],
      edges: [
        [0, 1],
        [1, 2],
        [0, 2],
      ],
      aspect: 2,
    });
  });

  it("draws the parts of an open fold, with its frame", () => {
    const drawing = draw(parts, () => true, inputs);
    expect(drawing.boxes).toEqual(rows);
    expect(drawing.frames.map((one) => one.title)).toEqual(["a"]);
    expect(drawing.parts).toEqual([[0, 0, 0], 0, 0]);
    expect(drawing.edges).toHaveLength(6);
  });

  it("leaves out values that something before their operation reads", () => {
    const back = inputsOf(rows, [[4], [0], [1], [2], [3]]);
    expect(draw(rows, () => true, back).edges.map(({ from, to }) => to > from)).toEqual([true, true, true, true]);
  });
});

describe("equal blocks", () => {
  // Three blocks of three operations; every block reads the one before, and the first operation of all.
  const rows = rowsOf(["stem", ...["a", "b", "c", "a", "b", "c", "a", "b", "c"]].map((type) => [type, "x"]));
  const inputs = (row: Row) => [row.op - 1, row.type === "b" ? 0 : -1].flatMap((index) => rows[index] ?? []);
  const parts = fold(rows, inputs, undefined, { kind: (row) => row.type, unit: () => null });
  const drawing = draw(parts, () => true, inputs);

  it("are drawn once and stand for all", () => {
    expect(drawing.boxes.map((part) => part.id)).toEqual(["main/0", "main/1", "main/2", "main/3"]);
    expect(drawing.boxes.map((part) => drawing.rowsOf.get(part)?.map((row) => row.op))).toEqual([[0], [1, 4, 7], [2, 5, 8], [3, 6, 9]]);
    expect(drawing.boxOf.get(rows[8] as Row)).toBe(2);
  });

  it("have the edges of one block, and those with what is around", () => {
    expect(drawing.edges.map(({ from, to, values }) => [from, to, values.length])).toEqual([
      [0, 1, 1],
      [1, 2, 3],
      [0, 2, 3],
      [2, 3, 3],
    ]);
  });
});

describe("opening", () => {
  const names = ["a/b/x", "a/b/y", "a/b/z", "a/u", "a/v", "c/x", "c/y", "c/z"];
  const parts = fold(rowsOf(names.map((name) => ["op", name])));
  const titles = (most: number) => {
    const open = opening(parts, most);
    return folds(parts).flatMap((one) => (open.has(one.id) ? [one.title] : []));
  };

  it("opens the largest folds while they fit", () => {
    expect([1, 3, 4, 6, 8].map(titles)).toEqual([[], [], ["a"], ["a", "c"], ["a", "b", "c"]]);
  });

  it("never closes what runs on several units", () => {
    const unit = (row: Row) => (row.op < 2 ? "cpu" : "gpu");
    expect(folds(parts).flatMap((one) => (opening(parts, 1, unit).has(one.id) ? [one.title] : []))).toEqual(["a", "b"]);
  });
});
