import { describe, expect, it } from "vitest";
import type { OutputDifference, Variant, VariantForecast, VariantsForm } from "../../src/data/schema";
import { failuresOf, forecastKeys, notesOf, pointsOf, sameClass, worstOutput } from "../../src/data/variants";

function output(psnr: number | null, top1: number | null = null): OutputDifference {
  return {
    name: "y",
    elements: 1,
    is_equal: psnr === null,
    max_abs: 0,
    largest: 1,
    snr_db: psnr,
    psnr_db: psnr,
    top1,
    not_finite: 0,
  };
}

function forecast(seconds: number): VariantForecast {
  const latency = { value: seconds, low: seconds, high: seconds, origin: "estimated" as const };
  return {
    answer: {
      ...{ model: "", device: "M1", chip: "m1", os: "macOS 15", compute_units: "all", is_asked: true, headline: "" },
      ...{ latency, is_at_least: false, is_extrapolated: false, units: { cpu: 1 }, tokens: null, load: null, best: null },
      ...{ time: [], why: [], changes: [], is_hazardous: false, hazards: [] },
      trust: { certainty: "likely", doubts: [], accuracy: "", published: [] },
    },
    verdict: null,
    operations: { cpu: 1 },
    memory: {
      weights_bytes: 1,
      expanded_bytes: 1,
      activations_bytes: null,
      peak_op: "",
      state_bytes: 0,
      weights_by_unit: {},
      activations_by_unit: {},
      peak: null,
      basis: "",
      limit: null,
    },
  };
}

function variant(name: string, size: number | null, psnr: number | null, seconds = 1): Variant {
  return {
    name,
    title: name,
    size_bytes: size,
    weights_bytes: size,
    storage: "",
    platforms: "",
    forecasts: size === null ? [] : [forecast(seconds)],
    difference: name === "original" || size === null ? null : { samples: 1, synthetic: 1, precision: "fp32", outputs: [output(psnr)] },
    notes: [],
    failure: "",
    hint: "",
    exit_code: 0,
    seconds: null,
  };
}

function report(...variants: Variant[]): VariantsForm {
  return {
    schema: "coremlscope.variants/1",
    path: "m.mlpackage",
    kind: "mlProgram",
    made: { at: "", version: "", machine: null },
    coremltools: "9.0",
    variants,
    findings: [],
  };
}

describe("variants", () => {
  const all = report(
    variant("original", 8, null, 4),
    variant("int8", 4, 45, 4),
    variant("palettize-4", 2, 30, 5),
    variant("prune-50", 5, 20, 3),
    variant("ios18", 9, null, 4),
    variant("w8a8", null, null),
  );

  it("marks the variants that no other one beats", () => {
    const best = (cost: "size" | "latency" | "memory") =>
      pointsOf(all, cost, "M1, macOS 15, all")
        .filter((point) => point.isBest)
        .map((point) => point.name);
    expect(best("size")).toEqual(["original", "int8", "palettize-4"]);
    expect(best("latency")).toEqual(["original", "prune-50"]);
  });

  it("marks the original where another one is a few bytes smaller", () => {
    const points = pointsOf(report(variant("original", 44_187_925, null), variant("ios18", 44_187_688, null)), "size", "");
    expect(points.map((point) => point.isBest)).toEqual([true, false]);
  });

  it("leaves out variants whose cost is not known", () => {
    expect(pointsOf(all, "size", "").map((point) => point.name)).not.toContain("w8a8");
    expect(pointsOf(all, "memory", "M1, macOS 15, all")).toEqual([]);
    expect(pointsOf(all, "latency", "another device")).toEqual([]);
  });

  it("knows equal outputs from unknown ones", () => {
    const points = new Map(pointsOf(all, "size", "").map((point) => [point.name, point.psnr]));
    expect(points.get("ios18")).toBeNull();
    expect(points.get("int8")).toBe(45);
  });

  it("lists each device once, and speaks of the worst output", () => {
    expect(forecastKeys(all)).toEqual(["M1, macOS 15, all"]);
    const difference = { samples: 1, synthetic: 0, precision: "fp32", outputs: [output(50, 1), output(20, 0.5), output(null)] };
    expect(worstOutput(difference)?.psnr_db).toBe(20);
    expect(sameClass(difference)).toBe(0.5);
  });

  it("gives each note once", () => {
    const [first, second] = [variant("original", 8, null), variant("int8", 4, 45)];
    expect(notesOf(report({ ...first, notes: ["a", "b"] }, { ...second, notes: ["b"] }))).toEqual([
      ["a", ["original"]],
      ["b", ["original", "int8"]],
    ]);
  });

  it("gives each reason of a failure once, with its hint", () => {
    const failed = (name: string) => ({ ...variant(name, 4, null), failure: "needs scikit-learn", hint: "pip install it" });
    expect(failuresOf(report(variant("original", 8, null), failed("a"), failed("b")))).toEqual([
      ["needs scikit-learn: pip install it", ["a", "b"]],
    ]);
  });
});
