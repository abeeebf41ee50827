import { describe, expect, it } from "vitest";
import { inOrder, moved, readArrangement, USUAL } from "../../../src/views/layers/arrangement";
import type { Column } from "../../../src/views/layers/columns";

const columns = ["a", "b", "c"].map((key): Column => ({ key, title: key, hint: "", width: "10px", cell: () => null }));
const keys = (list: Column[]) => list.map((one) => one.key).join("");

describe("arrangements of columns", () => {
  it("move a column to the place of another, in both directions", () => {
    expect(keys(inOrder(columns, moved(columns, USUAL, "a", "c")))).toBe("bca");
    expect(keys(inOrder(columns, moved(columns, USUAL, "c", "a")))).toBe("cab");
    expect(moved(columns, USUAL, "x", "a")).toBe(USUAL);
  });

  it("place columns last that they do not know", () => {
    expect(keys(inOrder(columns, { ...USUAL, order: ["c"] }))).toBe("cab");
  });

  it("read what was stored, and nothing else", () => {
    const kept = { hidden: ["a"], order: ["b"], widths: { a: 50 } };
    expect(readArrangement(JSON.parse(JSON.stringify(kept)))).toEqual(kept);
    expect(readArrangement({ hidden: 3, order: [1, "b"], widths: { a: -1, b: "x", c: 1e9, d: 40 } })).toEqual({
      hidden: [],
      order: ["b"],
      widths: { d: 40 },
    });
    for (const wrong of [null, 1, "x", []]) expect(readArrangement(wrong)).toEqual(USUAL);
  });
});
