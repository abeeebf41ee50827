import { describe, expect, it } from "vitest";
import { intervalReach, placeInterval, ratioText } from "../../src/data/comparison";

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

describe("the track of intervals", () => {
  it("reaches from half to twice, or to the widest interval of the table", () => {
    expect(intervalReach([{ low: 0.9, high: 1.1 }])).toBeCloseTo(Math.log(2));
    expect(
      intervalReach([
        { low: 4, high: 6 },
        { low: null, high: null },
      ]),
    ).toBeCloseTo(Math.log(6));
    expect(intervalReach([{ low: 0, high: 1 }])).toBeCloseTo(Math.log(100));
  });

  it("shows each interval within the track, and no change in its middle", () => {
    expect(placeInterval(0.5, 2, Math.log(2))).toEqual([0, 100]);
    expect(placeInterval(1, 6, Math.log(6))).toEqual([50, 100]);
    for (const [low, high] of [
      [25, 60],
      [200, 900],
      [0, 0.001],
      [1, 1.0001],
    ] as const) {
      const [left, right] = placeInterval(low, high, Math.log(100));
      expect(left).toBeGreaterThanOrEqual(0);
      expect(right).toBeLessThanOrEqual(100);
      expect(right - left).toBeGreaterThanOrEqual(2);
    }
  });
});
