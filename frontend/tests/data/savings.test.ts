import { describe, expect, it } from "vitest";
import { counts, findingFacts, savingOn } from "../../src/data/savings";
import type { Finding, Saving } from "../../src/data/schema";
import { opTable, placementOf, plan } from "../fixtures";

const table = opTable(["main/0", "main/1"]);
const made = plan(2);
const placement = placementOf(table, made);
const saving = (more: Partial<Saving> = {}): Saving => ({
  ...{ device: made.device, os: made.os, compute_units: placement.name, planned_ms: 0.8, saved_ms: 0.2 },
  saved_s: { value: 1e-4, low: 5e-5, high: 2e-4, origin: "estimated" },
  ...more,
});
const finding = (more: Partial<Finding> = {}): Finding => ({
  ...{ id: "redundant-transposes", severity: "info", text: "2 transposes follow each other.", hint: "remove them" },
  ...{ ops: ["main/0"], exit_code: 0, confidence: "documented", source: "coremltools", savings: [saving()], saved_bytes: 0 },
  transform: "tidy",
  ...more,
});

describe("findings on the model", () => {
  it("count where they save something on the chosen device", () => {
    expect(savingOn(finding(), placement)?.saved_ms).toBe(0.2);
    const other = finding({ savings: [saving({ device: "another" })] });
    expect(counts(finding(), placement)).toBe(true);
    expect(counts(other, placement)).toBe(false);
    expect(counts(other, null)).toBe(true);
    expect(counts({ ...other, saved_bytes: 10 }, placement)).toBe(true);
    expect(counts(finding({ confidence: "", savings: [] }), placement)).toBe(true);
  });

  it("tell their saving in words", () => {
    expect(findingFacts(finding(), placement)).toContain("If fixed: estimated 100 µs less (50.0 µs to 200 µs).");
    const unclear = saving({ saved_s: { value: 1e-6, low: -1e-6, high: 3e-6, origin: "estimated" } });
    expect(findingFacts(finding({ savings: [unclear] }), placement)).toContain("a clear difference (1.00 µs more to 3.00 µs less)");
    expect(findingFacts(finding({ savings: [], saved_bytes: 2000 }), placement)).toBe(
      "Files smaller by 2.00 kB. what-if --try tidy applies it. Evidence: documented.",
    );
  });
});
