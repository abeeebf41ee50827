import { describe, expect, it } from "vitest";
import { Arguments } from "../../src/data/arguments";
import { buildRows, type Row } from "../../src/data/rows";
import type { OpTable } from "../../src/data/schema";
import { first, opTable } from "../fixtures";

const TYPES = ["constexpr_lut_to_dense", "split", "conv", "add"];

/** A table that palettizes a weight, splits an input and convolves its second part. */
const table = (): OpTable =>
  opTable(["main/1", "main/2", "main/3", "main/4"], {
    type: TYPES,
    outputs: [["tensor<fp16, [4, 4]>"], ["tensor<fp16, [2]>", "tensor<fp16, [3]>"], ["tensor<fp16, [1]>"], ["tensor<fp16, [1]>"]],
    output_names: [["w"], ["a", "b"], ["c"], ["d"]],
    inputs: [[], [], [0, 1], [1, 2]],
    details: {
      signatures: [
        { parameters: ["indices"], attributes: [["shape", "[4, 4]"]] },
        { parameters: ["x"], attributes: [["axis", "1"]] },
        { parameters: ["weight", "x"], attributes: [["strides", "[1, 1]"]] },
        { parameters: ["values", "values"], attributes: [] },
      ],
      signature: [0, 1, 2, 3],
      arguments: [[-1], ["image"], [0, 2], [1, 3]],
      weights: {
        kinds: [{ type: "tensor<uint8, [4, ?]>", storage: "uint8" }],
        name: ["w_indices"],
        kind: [0],
        stored_bytes: [16],
        looked_at: [16],
        least: [-1.5],
        greatest: [2],
        histogram: [[500, 500]],
      },
    },
  });

const known = (of: OpTable) => {
  const rows = buildRows(of, null, null);
  const row = (index: number): Row => first(rows.ops.slice(index));
  return { row, found: new Arguments(of, rows, new Map([["image", "image RGB 8×8"]])) };
};

describe("the arguments of operations", () => {
  it("tell the results of an operation apart", () => {
    const { row, found } = known(table());
    expect(found.given(row(2)).map((one) => [one.parameter, one.name, one.type, one.maker?.id])).toEqual([
      ["weight", "w", "tensor<fp16, [4, 4]>", "main/1"],
      ["x", "b", "tensor<fp16, [3]>", "main/2"],
    ]);
    const made = found.made(row(1));
    expect(made.map((one) => [one.name, ...one.readers.map((reader) => reader.id)])).toEqual([
      ["a", "main/4"],
      ["b", "main/3"],
    ]);
  });

  it("name the function's inputs with their types", () => {
    const { row, found } = known(table());
    expect(first(found.given(row(1)))).toMatchObject({ parameter: "x", name: "image", type: "image RGB 8×8", maker: null });
  });

  it("include the weights of decompressing operations", () => {
    const { row, found } = known(table());
    const weight = first(found.weights(row(2)));
    expect(weight).toMatchObject({ parameter: "weight: indices", name: "w_indices", storedBytes: 16, least: -1.5, elements: null });
    expect(found.weights(row(3))).toEqual([]);
  });

  it("are written as MIL", () => {
    const { row, found } = known(table());
    expect(found.milLine(row(2))).toBe('tensor<fp16, [1]> c = conv(strides = [1, 1], weight = w, x = b)[name = "name of main/3"]');
    expect(found.milLine(row(3))).toContain("add(values = (a, c))");
    expect(found.milLine(row(1))).toContain("tensor<fp16, [2]> a, tensor<fp16, [3]> b = split(axis = 1, x = image)");
  });

  it("are the dataflow where a profile has no details", () => {
    const bare = opTable(["main/1", "main/2"], { inputs: [[], [0]] });
    const { row, found } = known(bare);
    expect(found.given(row(1)).map((one) => one.maker?.id)).toEqual(["main/1"]);
    expect(first(found.made(row(0))).readers.map((one) => one.id)).toEqual(["main/2"]);
    expect([found.milLine(row(1)), found.attributes(row(1)), found.weights(row(1))]).toEqual(["", [], []]);
  });
});
