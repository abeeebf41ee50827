import { describe, expect, it } from "vitest";
import { changes } from "../../src/data/answers";
import { buildRows } from "../../src/data/rows";
import { counts, findingFacts, savingOn, savingText } from "../../src/data/savings";
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
    expect(savingText(saving())).toBe("planned cost 0.2 less (1 → 0.8), estimated 100 µs less (50.0 µs to 200 µs)");
    expect(savingText(saving({ saved_s: null }))).toBe("planned cost 0.2 less (1 → 0.8)");
    const unclear = saving({ saved_ms: 0, saved_s: { value: 1e-6, low: -1e-6, high: 3e-6, origin: "estimated" } });
    expect(savingText(unclear)).toBe("planned cost unchanged, estimated without a clear difference (1.00 µs more to 3.00 µs less)");
    expect(findingFacts(finding({ savings: [], saved_bytes: 2000 }), placement)).toBe(
      "Files smaller by 2.00 kB. what-if --try tidy applies it. Evidence: documented.",
    );
  });

  it("are among the changes that are worth making", () => {
    const rows = buildRows(table, null, made);
    const [first] = changes({ placement, rows, findings: [finding()] });
    expect(first).toEqual({
      ...{ text: "remove them", reason: "2 transposes follow each other.", confidence: "documented", ids: ["main/0"] },
      ...{ saving: "saves 100 µs (50.0 µs – 200 µs)", origin: "estimated", setting: null, part: 1 },
    });
    expect(changes({ placement, rows, findings: [finding({ savings: [] })] })).toEqual([]);
    const unclear = saving({ saved_s: { value: 1e-6, low: -1e-6, high: 3e-6, origin: "estimated" } });
    expect(changes({ placement, rows, findings: [finding({ savings: [unclear] })] })).toEqual([]);
  });

  it("are suggested together where that saves more than each by itself", () => {
    const rows = buildRows(table, null, made);
    const together = (value: number) => {
      const saved = saving({ saved_s: { value, low: value / 2, high: value * 2, origin: "estimated" } });
      return finding({ id: "findings-together", text: "All of them.", hint: "fix those first that save most", savings: [saved], ops: [] });
    };
    const texts = (findings: Finding[]) => changes({ placement, rows, findings }).map((one) => one.text);
    expect(texts([finding(), finding({ hint: "remove more" }), together(2e-4)])).toEqual(["remove them", "remove more"]);
    expect(texts([finding(), together(3e-4)])).toEqual(["fix all findings on operations, together", "remove them"]);
  });
});
