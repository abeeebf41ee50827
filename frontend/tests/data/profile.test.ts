import { describe, expect, it } from "vitest";
import {
  conditionsText,
  findingsOf,
  measurementName,
  phaseRows,
  pythonNote,
  switches,
  targetName,
  targetsOf,
  totalMs,
} from "../../src/data/profile";
import type { Finding, Severity } from "../../src/data/schema";
import { BACKEND, estimate, finding, first, goldenMeasurement, goldenProfile, measurement, phase, plan, settingPlan } from "../fixtures";

/** What `data/schema.ts` declares, held against the JSON that Python writes. */
describe("the JSON of a profile", () => {
  const profile = goldenProfile();
  const count = profile.ops.id.length;

  it("names its schema", () => expect(profile.schema).toBe("coremlscope.profile/2"));

  it("has op columns of equal length", () => {
    const { details, ...columns } = profile.ops;
    for (const [name, column] of Object.entries(columns)) expect(column, name).toHaveLength(count);
    expect([details.signature.length, details.arguments.length]).toEqual([count, count]);
    for (const one of profile.measurements) expect([one.status.length, one.group.length]).toEqual([count, count]);
  });

  it("points from operations to groups and back", () => {
    const { groups, group } = goldenMeasurement();
    groups.forEach((one, index) => {
      for (const op of one.ops) expect(group[op]).toBe(index);
    });
  });

  it("has plans with a column entry for each operation", () => {
    for (const one of profile.plans) {
      const { id, inserted, supported, cost_ms, choices } = one.ops;
      expect(id).toHaveLength(count + inserted.length);
      for (const column of [...Object.values(supported), ...Object.values(cost_ms)]) expect(column).toHaveLength(id.length);
      for (const setting of one.settings) expect(choices[setting.compute_units]?.backend).toHaveLength(id.length);
    }
  });

  it("has estimates with a column entry for each kernel", () => {
    for (const one of profile.estimates)
      for (const column of [one.kernel_s, one.kernel_unit, one.kernel_bound]) expect(column).toHaveLength(profile.kernels.length);
  });

  it("has phases with samples and their statistics", () => {
    const { compile, load, predict } = goldenMeasurement();
    for (const one of [compile, load, predict]) {
      expect(one?.origin).toBe("measured");
      expect(one?.statistics.count).toBe(one?.samples_s.length);
      expect(one?.statistics.max).toBe(Math.max(...(one?.samples_s ?? [])));
    }
  });
});

describe("targetsOf", () => {
  it("joins plans and estimates of one device", () => {
    const targets = targetsOf(goldenProfile());
    expect(targets.map(({ device, settings }) => [device, settings])).toEqual([["M9", ["all", "cpu_and_ne", "cpu_and_gpu", "cpu_only"]]]);
    expect([...first(targets).estimates.keys()]).toEqual(first(targets).settings);
  });

  it("is empty without plans and estimates", () => expect(targetsOf({ plans: [], estimates: [] })).toEqual([]));

  it("holds devices that are planned only, and devices that are estimated only", () => {
    const targets = targetsOf({ plans: [plan(1)], estimates: [estimate({ device: "A9", os: "iOS 9", compute_units: "cpu_only" })] });
    expect(targets.map((one) => [targetName(one), one.plan !== null, one.estimates.size, one.settings])).toEqual([
      ["M9, macOS 99", true, 0, ["all"]],
      ["A9, iOS 9", false, 1, ["cpu_only"]],
    ]);
  });

  it("adds settings that were estimated and not planned", () => {
    const targets = targetsOf({ plans: [plan(1)], estimates: [estimate({ compute_units: "cpu_only" })] });
    expect(targets.map((one) => one.settings)).toEqual([["all", "cpu_only"]]);
  });

  it("keeps Core ML's own plan apart, and gives estimates to ours", () => {
    const targets = targetsOf({ plans: [plan(1, { planner: "Core ML" }), plan(1)], estimates: [estimate()] });
    expect(targets.map((one) => [targetName(one), one.estimates.size])).toEqual([
      ["M9, macOS 99, planned by Core ML", 0],
      ["M9, macOS 99", 1],
    ]);
    expect(new Set(targets.map((one) => one.key)).size).toBe(2);
  });
});

describe("planned totals", () => {
  it("add up the functions", () => {
    const setting = settingPlan({
      functions: { a: { total_ms: 1, switches: 2, time_shares: {} }, b: { total_ms: 3, switches: 4, time_shares: {} } },
    });
    expect([totalMs(plan(1), setting), switches(setting)]).toEqual([4, 6]);
  });

  it("are unknown where the planner gives no costs", () => {
    const costless = plan(1, { cost_ms: {}, settings: [settingPlan({ backend: [BACKEND.ane] })] });
    expect(totalMs(costless, first(costless.settings))).toBeNull();
    expect(totalMs(plan(1), settingPlan())).toBe(0);
  });
});

describe("measurements", () => {
  it("have a row for times through Python beside the runtime's own", () => {
    const { samples_s, statistics } = phase(0.5);
    const timed = measurement("Core ML", {
      runtime: { id: "coreml", name: "Core ML", version: "", through: "coremltools 9.0" },
      predict: { ...phase(0.25), remark: "fp16 as float32", through_python: { samples_s, statistics, origin: "measured" } },
      load: phase(1),
      first_load: phase(9),
      compile: null,
    });
    expect(phaseRows(timed).map((row) => [row.name, row.statistics.median])).toEqual([
      ["Predict, fp16 as float32", 0.25],
      ["Predict, through Python", 0.5],
      ["Load", 1],
      ["First load", 9],
    ]);
    expect(pythonNote(timed)).toContain("Core ML's own times, taken by coremltools 9.0");
    expect(pythonNote(measurement("a"))).toBe("");
  });

  it("have a row for each other way to predict", () => {
    const usual = { predict: phase(0.5), load: null, compile: null };
    const timed = measurement("Core ML", { ...usual, other_predictions: { "async, 2 in flight": phase(0.3) } });
    expect(phaseRows(timed).map((row) => [row.name, row.statistics.median])).toEqual([
      ["Predict", 0.5],
      ["async, 2 in flight", 0.3],
    ]);
  });

  it("say under which conditions they were taken", () => {
    const at = (thermal_state: string, power_mode = "normal") => ({ power_mode, power_source: "AC Power", thermal_state });
    const text = (start: string, end: string) => conditionsText(measurement("a", { before: at(start), after: at(end) }));
    expect(text("nominal", "nominal")).toBe("thermal state: nominal; power mode: normal; AC Power");
    expect(text("nominal", "heavy")).toContain("thermal state: nominal, then heavy");
    expect(text("", "heavy")).toContain("unknown, then heavy");
    expect(conditionsText(measurement("a", { before: null, after: null }))).toBe("");
  });

  it("are distinguished by setting, power mode, threads and number", () => {
    const { machine } = goldenMeasurement();
    const all = [
      measurement("ONNX Runtime", { threads: 2 }),
      measurement("ONNX Runtime", { threads: 4 }),
      measurement("Core ML", { compute_units: "cpu_and_ne", threads: null }),
      measurement("Core ML", { compute_units: "cpu_and_ne", threads: null, machine: { ...machine, power_mode: "low power" } }),
      measurement("Core ML", { compute_units: "own", threads: null }),
      measurement("Core ML", { compute_units: "own", threads: null }),
    ];
    expect(all.map((one) => measurementName(all, one))).toEqual([
      "ONNX Runtime, 2 threads",
      "ONNX Runtime, 4 threads",
      "Core ML, CPU + NE, power mode: unknown",
      "Core ML, CPU + NE, power mode: low power",
      "Core ML, own, power mode: unknown #1",
      "Core ML, own, power mode: unknown #2",
    ]);
  });
});

describe("findingsOf", () => {
  const remark = (text: string, severity: Severity): Finding => finding(text, { text, severity });

  it("puts errors first, then warnings, each once", () => {
    const one = measurement("m", { findings: [remark("c", "warning"), remark("a", "info")] });
    const found = findingsOf({ ...goldenProfile(), findings: [remark("a", "info"), remark("b", "error")], measurements: [one, one] });
    expect(found.map(({ text }) => text)).toEqual(["b", "c", "a"]);
  });
});
