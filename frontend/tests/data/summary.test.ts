import { describe, expect, it } from "vitest";
import { targetsOf } from "../../src/data/profile";
import { toMarkdown } from "../../src/data/summary";
import { estimate, goldenProfile, measurement } from "../fixtures";

const found = estimate({ placement: { neural_engine: 0.75, cpu: 0.25 } });
const report = {
  model: { ...goldenProfile().model, path: "models/<b>x.mlpackage" },
  profile: null,
  estimate: found,
  target: targetsOf({ plans: [], estimates: [found] })[0] ?? null,
  setting: "all" as const,
  measurements: [],
};

describe("a report as Markdown", () => {
  it("answers with figures and their origins", () => {
    const change = { text: "a|b", saving: "2.00 ms → 1.00 ms", certainty: "likely", ids: [], part: 1, lines: [] };
    const text = toMarkdown(report, "ML Program", [change]);
    expect(text).toContain("# &lt;b>x.mlpackage");
    expect(text).toContain("**Estimated on M9, macOS 99, All:** 1.00 s (80 % interval 1.00 s – 1.00 s); Neural Engine 75 %; CPU 25 %");
    expect(text).toContain("- a\\|b: 2.00 ms → 1.00 ms, likely");
  });

  it("holds measurements alone", () => {
    const bare = { ...report, estimate: null, target: null, measurements: [measurement("here")] };
    expect(toMarkdown(bare, "", [])).toMatch(/\*\*Measured by here[^*]*:\*\* .* \(median\)/);
  });
});
