import { describe, expect, it } from "vitest";
import { modulePaths } from "../../src/data/modules";
import type { Row } from "../../src/data/rows";
import { rowsOf } from "../fixtures";

/** Rows by name, with the name of a weight after a colon. */
function paths(...given: string[]): string[] {
  const weights = new Map<Row, string>();
  const rows = rowsOf(given.map((text) => ["linear", text.split(":")[0] ?? ""]));
  rows.forEach((row, index) => {
    const weight = given[index]?.split(":")[1];
    if (weight) weights.set(row, weight);
  });
  const found = modulePaths(rows, (one) => [weights.get(one) ?? ""]);
  return rows.map((one) => (found.get(one) ?? []).join(" › "));
}

describe("the modules of operations", () => {
  it("are the scopes of names that have any", () => {
    expect(paths("model.layers.0.q", "model.layers.0.k", "model/head")).toEqual(["model › layers › 0", "model › layers › 0", "model"]);
  });

  it("are read from the names of weights, split at numbers and where names branch", () => {
    const found = paths(
      "input_1:enc_layers_0_self_attn_linear_q_weight_to_fp16",
      "input_2:enc_layers_0_self_attn_linear_k_weight_to_fp16_quantized",
      "input_6:enc_layers_0_self_attn_out_weight",
      "input_3:enc_layers_0_mlp_up_fc_weight",
      "input_4:enc_layers_0_mlp_down_fc_bias",
      "input_5:enc_layers_1_norm_gamma",
    );
    expect(found).toEqual([
      "enc_layers › 0 › self_attn › linear_q",
      "enc_layers › 0 › self_attn › linear_k",
      "enc_layers › 0 › self_attn › out",
      "enc_layers › 0 › mlp › up_fc",
      "enc_layers › 0 › mlp › down_fc",
      "enc_layers › 1 › norm",
    ]);
  });

  it("of operations without weights are what those around them have in common", () => {
    const found = paths("a", "b:net_block_0_conv_weight", "c", "d:net_block_0_proj_weight", "e", "f:net_block_1_conv_weight", "g");
    expect(found).toEqual(["", "net_block › 0 › conv", "net_block › 0", "net_block › 0 › proj", "net_block", "net_block › 1 › conv", ""]);
  });

  it("do not come from names that a converter made", () => {
    const found = paths(
      "linear_0:linear_0_bias_0",
      "x_3:const_66",
      "input_17:input_17_weight_0",
      "op_1:net_a_fc_weight",
      "op_2:net_b_fc_weight",
    );
    expect(found).toEqual(["", "", "", "net › a_fc", "net › b_fc"]);
  });

  it("are unknown where names say nothing", () => {
    expect(paths("input_1", "input_3", "op_7")).toEqual(["", "", ""]);
    expect(paths()).toEqual([]);
  });
});
