import { describe, expect, it } from "vitest";
import { targetsOf } from "../../src/data/profile";
import type { Answer, Proposal } from "../../src/data/schema";
import { toMarkdown } from "../../src/data/summary";
import { estimate, goldenProfile, measurement } from "../fixtures";

const found = estimate({ placement: { neural_engine: 0.75, cpu: 0.25 } });
const report = {
  model: { ...goldenProfile().model, path: "models/<b>x.mlpackage" },
  target: targetsOf({ plans: [], estimates: [found] })[0] ?? null,
  setting: "all" as const,
  measurements: [],
};
const proposal: Proposal = {
  ...{ id: "rule", text: "a|b", certainty: "likely", before_s: 2e-3, saved_bytes: 0, code: "", command: "", ops: [] },
  after: { value: 1e-3, low: 1e-3, high: 1e-3, origin: "estimated" },
  ...{ is_planned_again: true, overlaps: false },
};
const answer: Answer = {
  ...{ model: "x", device: "M9", chip: "m9", os: "macOS 99", compute_units: "all", is_asked: true, headline: "about 1 s" },
  ...{ latency: found.latency, is_at_least: false, is_extrapolated: false, units: found.placement, tokens: null, load: null },
  ...{ best: null, time: [], why: [], changes: [proposal], is_hazardous: false, hazards: [] },
  trust: { certainty: "likely", doubts: [], accuracy: "", published: [] },
};

describe("a report as Markdown", () => {
  it("answers with figures and their origins", () => {
    const text = toMarkdown(report, "ML Program", answer);
    expect(text).toContain("# &lt;b>x.mlpackage");
    expect(text).toContain("**Estimated on M9, macOS 99, All:** 1.00 s (80 % interval 1.00 s – 1.00 s)");
    expect(text).toContain("- a\\|b: 2.00 ms → 1.00 ms, likely");
  });

  it("holds measurements alone", () => {
    const bare = { ...report, target: null, measurements: [measurement("here")] };
    expect(toMarkdown(bare, "", null)).toMatch(/\*\*Measured by here[^*]*:\*\* .* \(median\)/);
  });
});
