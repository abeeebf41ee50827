import { expect, it } from "vitest";
import { Names, shorten, shortenName } from "../../../src/views/graph/names";
import { rowsOf } from "../../fixtures";

const names = (...all: string[]): string[] => {
  const rows = rowsOf(all.map((name) => ["op", name]));
  const found = new Names(rows);
  return rows.map((row) => found.of(row));
};

it("leaves out what most names begin and end with", () => {
  const all = names("net_stem_conv_cast", "net_a_relu_cast", "net_b_add_cast", "net_c_mul_cast", "softmax");
  expect(all).toEqual(["stem_conv", "a_relu", "b_add", "c_mul", "softmax"]);
});

it("keeps names that share nothing, and never leaves nothing", () => {
  expect(names("conv", "relu", "add")).toEqual(["conv", "relu", "add"]);
  expect(names("a_x", "a_x", "a_x").every((name) => name.length > 0)).toBe(true);
  expect(names()).toEqual([]);
});

it("shortens in the middle, or at the end", () => {
  expect(shortenName("encoder_layer_12_norm", 8)).toBe("enc…norm");
  expect(shortenName("encoder_layer_12_norm", 14)).toBe("encod…_12_norm");
  expect(shortenName("short", 12)).toBe("short");
  expect(shorten("encoder", 4)).toBe("enc…");
});
