import { describe, expect, it } from "vitest";
import { intervalReach, namesIn, placeInterval, predictionChanges, ratioText, subjectTitle } from "../../src/data/comparison";
import type { Comparison, Difference } from "../../src/data/schema";

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

describe("subjectTitle", () => {
  it.each([
    ["M1, cpu_and_ne", "M1, CPU + NE"],
    ["M1, all", "M1, All"],
    ["all.mlpackage", "all.mlpackage"],
    ["m, cpu_7", "m, cpu_7"],
  ])("%s is %s", (label, title) => expect(subjectTitle(label)).toBe(title));
});

describe("the overview of a comparison", () => {
  const change = { before: 1, after: 2, ratio: 2, low: null, high: null, verdict: "slower" };
  const plan = { before: "M1, all", after: "M1, all", latency: change, planned: { ...change, after: 3 }, ops: [] };
  const difference = { base: 0, other: 1, incomparable: "", phases: { predict: { ...change, after: 4 } }, rows: [], plans: [plan] };
  const made = (parts: object) =>
    ({ subjects: [{ label: "a" }, { label: "b" }], differences: [{ ...difference, ...parts }] }) as unknown as Comparison;
  const shown = (parts: object) => predictionChanges(made(parts)).map((one) => [one.label, one.origin, one.device, one.change.after]);

  it("has what was measured and an estimate for each device", () =>
    expect(shown({})).toEqual([
      ["b", "measured", "", 4],
      ["b", "estimated", "M1, All", 2],
    ]));
  it("leaves out measurements that are not comparable", () =>
    expect(shown({ incomparable: "other machines" })).toEqual([["b", "estimated", "M1, All", 2]]));
  it("shows the planned cost without an estimate, and no device that the label names", () =>
    expect(shown({ phases: {}, plans: [{ ...plan, latency: null, before: "M4, all" }] })).toEqual([["b", "planned", "", 3]]));
  it("names operations by their ids", () => {
    const rows = [{ name: "head", before: [], after: ["main/3", "main/4"] }];
    const plans = [{ ops: [{ name: "stem", before: "main/1", after: "" }] }];
    const names = namesIn({ rows, plans } as unknown as Difference);
    expect([...names]).toEqual([
      ["main/3", "head"],
      ["main/1", "stem"],
    ]);
  });
});
