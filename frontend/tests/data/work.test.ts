import { describe, expect, it } from "vitest";
import { estimatedWork, intensity, measuredWork, rate } from "../../src/data/work";
import { estimate, first, goldenMeasurement, goldenProfile, group, kernel, opTable } from "../fixtures";

describe("measuredWork", () => {
  it("adds up the work of each group and never splits its time", () => {
    const { ops } = goldenProfile();
    expect(measuredWork(ops, goldenMeasurement().groups)).toEqual([
      { label: "conv + linear", ids: ["main/0", "main/1"], seconds: 1e-7, flops: 1000, bytes: 2560, unit: null },
      { label: "add + layer_norm", ids: ["main/2", "main/3"], seconds: 2e-7, flops: 5000, bytes: 2560, unit: null },
    ]);
  });

  it("gives intensity and rate of a point", () => {
    const point = { label: "", ids: [], seconds: 2, flops: 12, bytes: 6, unit: null };
    expect(intensity(point)).toBe(2);
    expect(rate(point)).toBe(6);
  });

  it("leaves out groups without time, FLOPs, bytes or operations: a log scale has no place for them", () => {
    const table = opTable(["main/0", "main/1", "main/2"], { flops: [10, 0, 10], read_bytes: [4, 4, 0], written_bytes: [2, 2, null] });
    const groups = [group("no time", [0], 0), group("no FLOPs", [1], 1), group("no bytes", [2], 1), group("engine", [], 1)];
    expect(measuredWork(table, groups)).toEqual([]);
  });

  it("ignores rows that the table does not hold", () => {
    expect(measuredWork(opTable(["main/0"]), [group("add", [0, 99], 1)])).toMatchObject([{ flops: 10, bytes: 6 }]);
  });
});

describe("estimatedWork", () => {
  it("gives one point for each kernel, on its unit", () => {
    const { ops, kernels, estimates } = goldenProfile();
    expect(estimatedWork(ops, kernels, first(estimates))).toMatchObject([
      { label: "conv + linear", seconds: 1e-6, unit: "gpu" },
      { label: "add + layer_norm", seconds: 2e-6, unit: "neural_engine" },
    ]);
  });

  it("is empty without kernels or without their times", () => {
    const table = opTable(["main/0"]);
    expect(estimatedWork(table, [], estimate({ kernel_s: [1], kernel_unit: [0] }))).toEqual([]);
    expect(estimatedWork(table, [kernel(0)], estimate())).toEqual([]);
  });

  it("keeps a kernel of an unknown unit", () => {
    const one = estimate({ kernel_s: [1], kernel_unit: [9] });
    expect(estimatedWork(opTable(["main/0", "main/1"]), [kernel(1)], one)).toMatchObject([{ ids: ["main/1"], unit: null }]);
  });
});
