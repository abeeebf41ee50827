import { describe, expect, it } from "vitest";
import { ratioText } from "../../src/data/comparison";

describe("ratioText", () => {
  it.each([
    [null, "–"],
    [1, "±0.0 %"],
    [1.0004, "±0.0 %"],
    [1.05, "+5.0 %"],
    [0.727, "−27.3 %"],
    [1.999, "+99.9 %"],
    [2, "×2"],
    [3.2, "×3.2"],
    [12.345, "×12.3"],
    [0, "−100.0 %"],
  ])("%s is %s", (ratio, text) => expect(ratioText(ratio)).toBe(text));
});
