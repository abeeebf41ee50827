import { describe, expect, it } from "vitest";
import { criticalPath, estimatedCosts, measuredCosts, plannedCosts } from "../../src/data/critical";
import { buildRows, type Row } from "../../src/data/rows";
import { BACKEND, estimate, group, kernel, opTable, placementOf, plan, settingPlan } from "../fixtures";

const table = opTable(["main/0", "main/1", "main/2", "main/3", "main/3/body/0"]);
const rows = buildRows(table, null, null);
const top = rows.ops.slice(0, 4);
/** 0 → 1 → 3 and 0 → 2 → 3. */
const inputs: Record<string, number[]> = { "main/1": [0], "main/2": [0], "main/3": [1, 2] };
const inputsOf = (row: Row): Row[] => (inputs[row.id] ?? []).map((index) => rows.ops[index]).filter((one) => one !== undefined);
const ids = (path: { rows: Row[] }): string[] => path.rows.map((row) => row.id);

describe("criticalPath", () => {
  it("takes the longer branch", () => {
    const costs = measuredCosts(rows, [group("0", [0], 1), group("1", [1], 2), group("2", [2], 5), group("3", [3], 1)]);
    const path = criticalPath(top, inputsOf, costs);
    expect([ids(path), path.seconds, costs.origin]).toEqual([["main/0", "main/2", "main/3"], 7, "measured"]);
  });

  it("counts a group once, however many of its operations are on the path", () => {
    const costs = measuredCosts(rows, [group("0+1", [0, 1], 4), group("2", [2], 1), group("3", [3], 1)]);
    const path = criticalPath(top, inputsOf, costs);
    expect([ids(path), path.seconds]).toEqual([["main/0", "main/2", "main/3"], 6]);
  });

  it("counts nested operations for the one that contains them", () => {
    const costs = measuredCosts(rows, [group("body", [4], 3), group("1", [1], 1)]);
    const path = criticalPath(top, inputsOf, costs);
    expect([ids(path), path.seconds]).toEqual([["main/0", "main/1", "main/3"], 4]);
  });

  it("ends where nothing takes time any more, and is empty without times", () => {
    const costs = measuredCosts(rows, [group("1", [1], 1)]);
    expect(ids(criticalPath(top, inputsOf, costs))).toEqual(["main/0", "main/1"]);
    expect(criticalPath(top, inputsOf, measuredCosts(rows, [])).rows).toEqual([]);
  });

  it("never exceeds the time of all groups", () => {
    const costs = measuredCosts(rows, [group("all", [0, 1, 3], 2), group("2", [2], 1)]);
    expect(criticalPath(top, inputsOf, costs).seconds).toBe(3);
  });
});

describe("costs", () => {
  it("are those of the plan and of the estimate", () => {
    const devicePlan = plan(5, { settings: [settingPlan({ backend: [BACKEND.ane, BACKEND.mps, BACKEND.bnns, -1, BACKEND.ane] })] });
    const planned = buildRows(table, null, devicePlan);
    expect(plannedCosts(planned, placementOf(devicePlan)).seconds).toEqual([1e-3, 2e-3, 4e-3]);
    const kernels = [kernel(0, 1), kernel(2)];
    const estimated = estimatedCosts(rows, kernels, estimate({ kernel_s: [3, 4] }));
    expect([estimated.seconds, estimated.firstOf.map((row) => row?.id)]).toEqual([
      [3, 4],
      ["main/0", "main/2"],
    ]);
  });
});
