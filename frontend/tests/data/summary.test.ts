import { describe, expect, it } from "vitest";
import { Placement } from "../../src/data/placement";
import { targetsOf } from "../../src/data/profile";
import { buildRows } from "../../src/data/rows";
import { type Summarized, toMarkdown } from "../../src/data/summary";
import { estimate, goldenProfile, kernel, measurement, opTable, plan, settingPlan } from "../fixtures";

function report(changes: Partial<Summarized> = {}): Summarized {
  const made = plan(2, { settings: [settingPlan({ backend: [0, 2] }, 5)] });
  const table = opTable(["main/0", "main/1"], { name: ["a|b", "*c*"] });
  const kernels = [kernel(0), kernel(1)];
  const found = estimate({ kernel_s: [0.5, 0.25], kernel_unit: [2, 0], kernel_bound: ["compute", "compute"] });
  return {
    model: { ...goldenProfile().model, path: "models/<b>x.mlpackage" },
    table,
    rows: buildRows(table, null, made, kernels),
    kernels,
    groups: [],
    estimate: found,
    placement: new Placement(made, "all", table),
    target: targetsOf({ plans: [made], estimates: [found] })[0] ?? null,
    setting: "all",
    measurements: [],
    remarks: [],
    ...changes,
  };
}

describe("a report as Markdown", () => {
  it("answers with figures and their origins", () => {
    const text = toMarkdown(report(), "ML Program");
    expect(text).toContain("**Estimated on M9, macOS 99, All:** 1.00 s (80 % interval 1.00 s – 1.00 s)");
    expect(text).toContain("Operations (planned): Neural Engine 1 · CPU 1");
    expect(text).toContain("Time (estimated): Neural Engine 50.0 % · CPU 25.0 % · launches and changes of unit 25.0 %");
  });

  it("keeps names from being markup", () => {
    const text = toMarkdown(report(), "");
    expect(text).toContain("# &lt;b>x.mlpackage");
    expect(text).toContain("| a\\|b | add | 500 ms | 50.0 % |");
    expect(text).toContain("| \\*c\\* |");
  });

  it("falls back to the planned cost, and to measurements alone", () => {
    expect(toMarkdown(report({ estimate: null }), "")).toContain("**Planned cost on M9, macOS 99, All:** 5\n");
    const bare = report({ estimate: null, placement: null, target: null, measurements: [measurement("here")] });
    expect(toMarkdown(bare, "")).toMatch(/\*\*Measured by here[^*]*:\*\* .* \(median\)/);
  });
});
