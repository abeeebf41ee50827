import { describe, expect, it } from "vitest";
import { agreementName, agreementText, disagreementText } from "../../src/data/agreement";
import type { Agreement, Disagreement } from "../../src/data/schema";
import { plan } from "../fixtures";

const agreement = (changes: Partial<Agreement> = {}): Agreement => ({
  theirs: 0,
  ours: 1,
  compute_units: "cpu_and_ne",
  compared: 4,
  agreed: 3,
  unknown: 0,
  share: 0.75,
  cost_share: 0.5,
  weighted_by: "Core ML",
  disagreements: [],
  undecided: 0,
  decided_share: null,
  ...changes,
});

const disagreement = (changes: Partial<Disagreement> = {}): Disagreement => ({
  op: "main/1",
  type: "conv",
  name: "stem",
  ours: "cpu",
  theirs: "gpu",
  why: [],
  message: "",
  share: null,
  undecided: null,
  ...changes,
});

describe("agreement", () => {
  it("is named by device, system and setting", () => {
    const plans = [plan(1, { device: "M1", os: "macOS 14.5" })];
    expect(agreementName(plans, agreement())).toBe("M1, macOS 14.5, CPU + NE");
  });

  it("says whose costs are the weights, and what is not covered", () => {
    expect(agreementText(agreement())).toBe("75.0 % of 4 operations are on the same unit (50.0 % by Core ML's costs)");
    expect(agreementText(agreement({ weighted_by: "rules" }))).toContain("by our planned costs");
    expect(agreementText(agreement({ cost_share: null, weighted_by: "" }))).not.toContain("by");
    expect(agreementText(agreement({ unknown: 1 }))).toContain("the rules do not cover 1 more operation");
    expect(agreementText(agreement({ share: null, compared: 0 }))).toContain("no operation has a unit in both plans");
  });

  it("says how far decided operations agree", () => {
    const found = agreement({ undecided: 2, decided_share: 1 });
    expect(agreementText(found)).toContain("; 100.0 % of the 2 operations whose unit the evidence decides");
    expect(disagreementText(disagreement({ undecided: "tie" }))).toBe("rules: the plan costs the same there");
  });

  it("says why operations are on different units", () => {
    expect(disagreementText(disagreement({ why: ["too odd", "too wide"], message: "No." }))).toBe("rules: too odd; too wide. Core ML: No.");
    expect(disagreementText(disagreement({ ours: null }))).toBe("rules: no rule covers it");
    expect(disagreementText(disagreement())).toBe("");
  });
});
