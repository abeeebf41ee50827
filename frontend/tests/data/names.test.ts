import { describe, expect, it } from "vitest";
import { sharedBeginning, shortName } from "../../src/data/names";

const blocks = (from: number, to: number) =>
  Array.from({ length: to - from }, (_, index) => `MobileNet_blocks_${from + index}_conv_BatchNorm_cast`);

describe("names", () => {
  it("lose the parts that most of them begin with", () => {
    const names = ["softmax", "MobileNet_head_BatchNorm_fused_cast", ...blocks(0, 6)];
    const shared = sharedBeginning(names);
    expect(shared).toBe("MobileNet_blocks_");
    expect(names.map((name) => shortName(name, shared)).slice(0, 3)).toEqual([
      "softmax",
      "MobileNet_head_BatchNorm_fused_cast",
      "…0_conv_BatchNorm_cast",
    ]);
  });

  it("stay whole where they are short or share little", () => {
    expect(sharedBeginning(["model_1", "model_2", "model_3"])).toBe("");
    expect(sharedBeginning(["a_first_operation_of_the_model", "b_second_operation_of_the_model"])).toBe("");
    expect(sharedBeginning([])).toBe("");
    expect(shortName("short_name", "short_")).toBe("short_name");
  });

  it("never lose their last part", () => {
    const names = Array.from({ length: 5 }, () => "encoder/layers/attention/softmax");
    const shared = sharedBeginning(names);
    expect(shortName(names[0] ?? "", shared)).toBe("…softmax");
  });
});
