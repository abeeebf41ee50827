import { describe, expect, it } from "vitest";
import { DRAWN, type Fold, fold, folds, isFold, isMixed, type Part, type Sameness, shownParts } from "../../src/data/folding";
import type { Row } from "../../src/data/rows";
import { rowsOf } from "../fixtures";

const leaves = (parts: readonly Part[]): Row[] => parts.flatMap((part) => (isFold(part) ? leaves(part.parts) : [part]));
const titles = (parts: readonly Part[]): string[] => parts.map((part) => (isFold(part) ? part.title : part.id));
const first = (parts: readonly Part[]): Fold => {
  const found = parts.find(isFold);
  if (!found) throw new Error("nothing is folded");
  return found;
};
const block = ["linear", "softmax", "linear", "add"] as const;
const repeated = (times: number): Row[] => rowsOf(Array.from({ length: times }, () => block.map((type) => [type, "x"] as const)).flat());

describe("by scope", () => {
  it("folds neighbours of one scope and leaves short ones alone", () => {
    const parts = fold(rowsOf(["stem/conv", "stem/bn", "stem/relu", "head/fc", "head/softmax"].map((name) => ["op", name])));
    expect(titles(parts)).toEqual(["stem", "main/3", "main/4"]);
    expect(first(parts).rows.map((row) => row.name)).toEqual(["stem/conv", "stem/bn", "stem/relu"]);
  });

  it("takes dots and slashes for the same", () => {
    expect(titles(fold(rowsOf(["a.b/x", "a/b.y", "a.b.z"].map((name) => ["op", name]))))).toEqual(["a/b"]);
  });

  it("joins scopes that hold nothing but one scope", () => {
    const parts = fold(rowsOf(["a/b/c/x", "a/b/c/y", "a/b/c/z"].map((name) => ["op", name])));
    expect(titles(parts)).toEqual(["a/b/c"]);
    expect(folds(parts)).toHaveLength(1);
  });

  it("nests scopes, outer ones first", () => {
    const parts = fold(rowsOf(["a/b/x", "a/b/y", "a/b/z", "a/u", "a/v", "a/w"].map((name) => ["op", name])));
    expect(folds(parts).map((one) => one.title)).toEqual(["a", "b"]);
  });

  it("folds a scope that comes back later as another one with another id", () => {
    const names = ["a/x", "a/y", "a/z", "b/x", "b/y", "b/z", "a/x", "a/y", "a/z"];
    const parts = fold(rowsOf(names.map((name) => ["op", name])));
    expect(titles(parts)).toEqual(["a", "b", "a"]);
    expect(new Set(folds(parts).map((one) => one.id)).size).toBe(3);
  });

  it("does not fold where few names have scopes", () => {
    const parts = fold(rowsOf(["a/x", "a/y", "a/z", "p", "q", "r", "s"].map((name) => ["op", name])));
    expect(parts.some(isFold)).toBe(false);
  });
});

describe("by repetition", () => {
  it("finds the layers of a transformer", () => {
    const parts = fold(repeated(12));
    const layers = first(parts);
    expect(titles(parts)).toEqual(["12 × block"]);
    expect(titles(layers.parts)).toEqual(Array.from({ length: 12 }, (_, index) => `block ${index + 1} of 12`));
    expect(layers.parts.filter(isFold).map((one) => one.rows.length)).toEqual(new Array(12).fill(4));
  });

  it("names a run of one type by it", () => {
    expect(titles(fold(rowsOf(new Array(50).fill(["relu", "x"]))))).toEqual(["50 × relu"]);
  });

  it("leaves what stands around the blocks", () => {
    const rows = rowsOf([["conv", "x"], ...repeated(11).map((row) => [row.type, "x"] as const), ["pool", "x"]]);
    expect(titles(fold(rows))).toEqual(["main/0", "11 × block", "main/45"]);
  });

  it("is not tried on graphs that are small enough", () => {
    expect(fold(repeated(6)).some(isFold)).toBe(false);
  });

  it("finds no blocks where no type repeats", () => {
    const parts = fold(rowsOf(Array.from({ length: 60 }, (_, index) => [`type${index}`, "x"])));
    expect(titles(parts)).toEqual(["type0 … type17", "type18 … type35", "type36 … type53", "type54 … type59"]);
  });
});

describe("for a drawing", () => {
  const same = (unit: (row: Row) => string): Sameness => ({ kind: (row) => `${row.type} ${unit(row)}`, unit });

  it("folds equal blocks however few they are, and knows how often they repeat", () => {
    const layers = first(
      fold(
        repeated(3),
        undefined,
        undefined,
        same(() => "cpu"),
      ),
    );
    expect([layers.times, layers.rows.length, shownParts(layers).length]).toEqual([3, 12, 4]);
  });

  it("takes blocks on other units for others", () => {
    const unit = (row: Row) => (row.op < 8 ? "cpu" : "gpu");
    expect(folds(fold(repeated(4), undefined, undefined, same(unit))).flatMap((one) => one.times ?? [])).toEqual([2, 2]);
  });

  it("cuts what is too much to draw, where the unit changes", () => {
    const rows = rowsOf(Array.from({ length: 2 * DRAWN }, (_, index) => [`type${index}`, "x"]));
    const unit = (row: Row) => `${Math.floor(row.op / 37)}`;
    const pieces = folds(fold(rows, undefined, undefined, same(unit))).filter((one) => !one.parts.some(isFold));
    expect(pieces.length).toBeGreaterThan(20);
    expect(pieces.filter((one) => isMixed(one.rows, unit))).toEqual([]);
  });
});

describe("fold", () => {
  it("folds nothing of nothing", () => expect(fold([])).toEqual([]));

  it("cuts long graphs without structure into pieces", () => {
    const rows = rowsOf(Array.from({ length: 1000 }, (_, index) => [`type${index}`, `op${index}`]));
    const parts = fold(rows);
    expect(parts.length).toBeLessThanOrEqual(60);
    expect(parts.every(isFold)).toBe(true);
    expect(titles(parts)[0]).toBe("type0 … type62");
  });

  it("cuts what is around modules that hold most operations", () => {
    const names = [...new Array(8).fill("x"), ...Array.from({ length: 100 }, (_, index) => `net/a${index % 9}`), ...new Array(6).fill("y")];
    const parts = fold(rowsOf(names.map((name, index) => [`type${index}`, name])));
    expect(titles(parts)).toEqual(["type0 … type7", "net", "type108 … type113"]);
  });

  it.each([8, 9, 10, 11, 12, 13])(
    "ends where a piece would be as long as the list: %i small modules, each before an operation",
    (count) => {
      const names = Array.from({ length: count }, (_, module) => [...new Array(9).fill(`m${module}/x`), "x"]).flat();
      const rows = rowsOf(names.map((name, index) => [`type${index}`, name]));
      expect(leaves(fold(rows))).toEqual(rows);
    },
  );

  it("begins blocks and pieces where the fewest values cross", () => {
    // Layers of five operations; the last reads the first as well.
    const rows = rowsOf(Array.from({ length: 100 }, (_, index) => [["conv", "relu", "conv", "add", "relu"][index % 5] ?? "", "x"]));
    const inputsOf = (row: Row) => [row.op - 1, row.op % 5 === 3 ? row.op - 4 : -1].flatMap((index) => rows[index] ?? []);
    const blocks = first(fold(rows, inputsOf)).parts.filter(isFold);
    expect(blocks.map((one) => one.rows[0]?.type)).toEqual(blocks.map(() => "conv"));
    // The same after two operations of their own: the first layer is not a whole one.
    const [pad, layers] = [["pad", "x"] as const, rows.slice(3).map((row) => [row.type, "x"] as const)];
    const late = rowsOf([pad, pad, ...layers]);
    const lateInputs = (row: Row) =>
      [row.op - 1, row.op === 2 ? 0 : row.op % 5 === 2 ? row.op - 4 : -1].flatMap((index) => late[index] ?? []);
    const block = first(first(fold(late, lateInputs)).parts);
    expect(block.rows.map((row) => row.type)).toEqual(["relu", "conv", "relu", "conv", "add"]);
  });

  it.each([
    [
      "scopes",
      rowsOf(Array.from({ length: 90 }, (_, index) => ["op", `layer${Math.floor(index / 9)}/part${Math.floor(index / 3) % 3}/op${index}`])),
    ],
    ["blocks", repeated(30)],
    ["pieces", rowsOf(Array.from({ length: 700 }, (_, index) => [`type${index}`, "x"]))],
  ])("keeps every operation once and in order: %s", (_, rows) => {
    const parts = fold(rows);
    expect(leaves(parts)).toEqual(rows);
    for (const one of folds(parts)) expect(leaves(one.parts)).toEqual(one.rows);
    const ids = folds(parts).map((one) => one.id);
    expect(new Set(ids).size).toBe(ids.length);
  });
});
