import { describe, expect, it } from "vitest";
import { isWhole, measurementBadges, spending, timeShares } from "../../src/data/answers";
import type { StageTiming } from "../../src/data/schema";
import { finding, group, measurement, opTable } from "../fixtures";

const IDS = ["main/0", "main/1", "main/2", "main/3"];

const stage = (name: string, absent: string): StageTiming => ({
  ...{ name, kind: "neuralNetwork", absent, origin: "measured" },
  ...{ run_s: null, convert_s: null, operations_s: null },
});

describe("badges", () => {
  it("tell what a measurement lacks", () => {
    const whole = measurement("a", { stages: [stage("model1", "")], findings: [], partial: null });
    expect(measurementBadges(whole)).toEqual([]);
    expect(isWhole(whole)).toBe(true);
    const part = measurement("a", {
      stages: [stage("model0", "it is Apple's"), stage("model1", "")],
      findings: [finding("random-weights"), finding("layer-not-run")],
      partial: { cause: "interrupted", phase: "predict", text: "the user ended it" },
    });
    expect(measurementBadges(part).map((badge) => badge.text)).toEqual([
      "synthetic weights",
      "model0 not run",
      "1 layer not run",
      "partial",
    ]);
    expect(isWhole(part)).toBe(false);
  });
});

describe("where the time goes", () => {
  const table = opTable(IDS, { type: ["conv", "relu", "linear", "conv"], name: ["stem", "act", "head", "last"] });
  const nothing = { table, groups: [] };

  it("is measured by groups: what a plan charges is no time", () => {
    const measured = spending({ ...nothing, groups: [group("conv + relu", [0, 1], 2), group("linear", [2], 6)] });
    expect(measured?.map(({ label, share }) => [label, share])).toEqual([
      ["linear", 0.75],
      ["conv + relu", 0.25],
    ]);
    expect(spending(nothing)).toBeNull();
  });

  it("divides among the units that take any of it", () => {
    expect(timeShares({ cpu: 0.25, neural_engine: 0.75, gpu: 0 })).toEqual([
      { unit: "neural_engine", part: 0.75 },
      { unit: "cpu", part: 0.25 },
    ]);
  });
});
