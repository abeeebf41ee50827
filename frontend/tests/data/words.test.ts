import { describe, expect, it } from "vitest";
import { ALLOWED, BOUND_WORDS, basisText, kindName, SETTING_NAMES, STATUS_WORDS, UNIT_NAMES, UNIT_SHORT } from "../../src/data/words";
import { estimate, goldenMeasurement, goldenPlan, goldenProfile } from "../fixtures";

describe("words", () => {
  it("names kinds of models and leaves unknown ones as Apple spells them", () => {
    expect(kindName("mlProgram")).toBe("ML Program");
    expect(kindName("treeEnsembleClassifier")).toBe("tree ensemble classifier");
    expect(kindName("kindOfTheFuture")).toBe("kindOfTheFuture");
  });

  it("has every setting allow the CPU, and units that have names", () => {
    for (const [setting, units] of Object.entries(ALLOWED)) {
      expect(units, setting).toContain("cpu");
      for (const unit of units) expect([UNIT_NAMES[unit], UNIT_SHORT[unit]]).not.toContain(undefined);
    }
  });

  it("says what an estimate is based on", () => {
    expect(basisText(estimate({ basis: "extrapolated" }))).toBe("extrapolated");
    const own = { measurements: 12, models: 5, factors: { cpu: 1.25 } };
    expect(basisText(estimate({ basis: "extrapolated", own }))).toBe("calibrated on your 12 measurements");
    expect(basisText(estimate({ own: { ...own, measurements: 1 } }))).toBe("calibrated on your 1 measurement");
  });

  it("has words for what the golden profile holds", () => {
    for (const setting of goldenPlan().settings) expect(SETTING_NAMES).toHaveProperty(setting.compute_units);
    for (const estimate of goldenProfile().estimates) for (const bound of estimate.kernel_bound) expect(BOUND_WORDS).toHaveProperty(bound);
    for (const status of goldenMeasurement().status) expect(STATUS_WORDS).toHaveProperty([status]);
  });
});
