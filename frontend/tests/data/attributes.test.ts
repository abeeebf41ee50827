import { expect, it } from "vitest";
import { Arguments } from "../../src/data/arguments";
import { keyAttributes } from "../../src/data/attributes";
import { buildRows } from "../../src/data/rows";
import type { OpTable } from "../../src/data/schema";
import { opTable } from "../fixtures";

/** The key attributes of one operation with a weight. */
function attributesOf(type: string, weight: string, attributes: [string, string][]): string {
  const weights: OpTable["details"]["weights"] = {
    kinds: [{ type: weight, storage: "fp16" }],
    ...{ name: ["w"], kind: [0], stored_bytes: [1], looked_at: [0], least: [null], greatest: [null], histogram: [[]] },
  };
  const details = { signatures: [{ parameters: ["weight"], attributes }], signature: [0], arguments: [[-1]], weights };
  const table = opTable(["main/0"], { type: [type], details });
  const rows = buildRows(table, null, null);
  return keyAttributes(rows.ops[0] as (typeof rows.ops)[number], new Arguments(table, rows, new Map()));
}

it.each([
  [
    "conv",
    "tensor<fp16, [96, 1, 3, 3]>",
    [
      ["strides", "[2, 2]"],
      ["groups", "96"],
      ["dilations", "[1, 1]"],
    ],
    "3×3 s2 g96",
  ],
  [
    "conv",
    "tensor<fp16, [8, 4, 1, 5]>",
    [
      ["strides", "[1, 2]"],
      ["groups", "1"],
      ["dilations", "[1, 2]"],
    ],
    "1×5 s1×2 d1×2",
  ],
  ["linear", "tensor<fp16, [2048, 512]>", [], "512→2048"],
  [
    "max_pool",
    "tensor<fp16, [1]>",
    [
      ["kernel_sizes", "[3, 3]"],
      ["strides", "[2, 2]"],
    ],
    "3×3 s2",
  ],
  [
    "matmul",
    "tensor<fp16, [1]>",
    [
      ["transpose_x", "false"],
      ["transpose_y", "true"],
    ],
    "yᵀ",
  ],
  ["softmax", "tensor<fp16, [1]>", [["axis", "-1"]], "axis -1"],
  ["relu", "tensor<fp16, [1]>", [], ""],
] as [string, string, [string, string][], string][])("%s with %s", (type, weight, attributes, expected) => {
  expect(attributesOf(type, weight, attributes)).toBe(expected);
});
