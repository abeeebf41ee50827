import { describe, expect, it } from "vitest";
import { measuredCosts } from "../../src/data/critical";
import { buildRows } from "../../src/data/rows";
import { byType, obstacles, plannedColumns, unitShares } from "../../src/data/totals";
import {
  BACKEND,
  goldenMeasurement,
  goldenPlan,
  goldenProfile,
  group,
  inserted,
  opTable,
  placementOf,
  plan,
  reason,
  settingPlan,
  times,
  whatIf,
} from "../fixtures";

describe("unitShares", () => {
  const table = opTable(["main/0", "main/1", "main/2", "main/3"]);
  const settings = [settingPlan({ backend: [BACKEND.bnns, BACKEND.ane, BACKEND.unknown, BACKEND.bnns] })];

  it("counts operations by unit and keeps unknown ones visible", () => {
    const placement = placementOf(plan(4, { settings }));
    expect(unitShares(placement, [0, 1, 2, 3])).toEqual([
      { unit: "neural_engine", ops: 1 },
      { unit: "cpu", ops: 2 },
      { unit: null, ops: 1 },
    ]);
  });

  it("is empty without columns", () => expect(unitShares(placementOf(plan(4, { settings })), [])).toEqual([]));

  it("counts the columns that the plan lists only", () => {
    const devicePlan = plan(4, { id: ["main/cast", "main/0", "main/2", "main/3"], inserted: [inserted("main/cast")] });
    expect(plannedColumns(buildRows(table, null, devicePlan))).toEqual([0, 1, 2, 3]);
    expect(plannedColumns(buildRows(table, null, null))).toEqual([]);
  });
});

describe("byType", () => {
  it("orders the golden profile's types by planned cost", () => {
    const profile = goldenProfile();
    const rows = buildRows(profile.ops, goldenMeasurement(), goldenPlan());
    const totals = byType(rows, profile.ops, placementOf(goldenPlan()));
    expect(totals.map((total) => total.type)).toEqual(["conv", "layer_norm", "add", "linear"]);
    expect(totals[3]).toMatchObject({
      type: "linear",
      ops: 1,
      columns: [1],
      flops: 1000,
      isComplete: true,
      weightBytes: 64,
      amount: 0.002,
    });
  });

  it("sums times where there are any: that of a group at its first operation", () => {
    const table = opTable(["main/0", "main/1", "main/2"], { type: ["conv", "relu", "conv"] });
    const groups = [group("conv + relu", [0, 1], 2), group("conv", [2], 3)];
    const rows = buildRows(table, times(3, groups), null);
    const totals = byType(rows, table, null, measuredCosts(rows, groups));
    expect(totals.map(({ type, amount }) => [type, amount])).toEqual([
      ["conv", 5],
      ["relu", 0],
    ]);
  });

  it("orders by FLOPs, then by number, without a plan", () => {
    const table = opTable(["main/0", "main/1", "main/2", "main/3"], { type: ["relu", "relu", "conv", "mul"], flops: [0, 0, 5, 0] });
    expect(byType(buildRows(table, null, null), table, null).map((total) => total.type)).toEqual(["conv", "relu", "mul"]);
  });

  it("marks a sum as incomplete where one part is unknown or a lower bound", () => {
    const table = opTable(["main/0", "main/1", "main/2"], {
      type: ["a", "a", "b"],
      flops: [10, null, 10],
      work_is_complete: [true, true, false],
    });
    const totals = byType(buildRows(table, null, null), table, null);
    expect(totals.map(({ type, flops, isComplete }) => [type, flops, isComplete])).toEqual([
      ["a", 10, false],
      ["b", 10, false],
    ]);
  });

  it("counts inserted operations by their planned cost, and no rows of the engine", () => {
    const table = opTable(["main/0"]);
    const devicePlan = plan(2, { inserted: [inserted("main/cast")] });
    const totals = byType(buildRows(table, times(1, [group("reorder", [], 1)]), devicePlan), table, placementOf(devicePlan));
    expect(totals.map(({ type, ops, amount, flops }) => [type, ops, amount, flops])).toEqual([
      ["add", 1, 1, 10],
      ["cast", 1, 1, 0],
    ]);
  });
});

describe("obstacles", () => {
  const table = opTable(["main/0", "main/1", "main/2"]);

  it("joins operations by rule and remedy, that of most operations first", () => {
    const devicePlan = plan(3, {
      reasons: [reason("a"), reason("b"), reason("a", { fix: "other remedy" })],
      why: [[0, 1], [1], [2]],
      settings: [settingPlan({ backend: [BACKEND.mps, BACKEND.bnns, BACKEND.mps] })],
    });
    const found = obstacles(placementOf(devicePlan), buildRows(table, null, devicePlan));
    expect(found.map(({ reason: { rule, fix }, ids, effect }) => [rule, fix, ids, effect])).toEqual([
      ["b", "", ["main/0", "main/1"], ""],
      ["a", "", ["main/0"], ""],
      ["a", "other remedy", ["main/2"], ""],
    ]);
  });

  it("takes them from the plans that were made again, with operations of the file first", () => {
    const what_ifs = [
      whatIf({ rule: "a", ops: [0, 1, 2], effect: "planned 2 ms less" }),
      whatIf({ hypothesis: "doubt", rule: "b", ops: [3], effect: "would move 1 operation" }),
    ];
    const devicePlan = plan(4, {
      inserted: [inserted("main/input")],
      reasons: [reason("c")],
      why: [[0], [], [], []],
      settings: [settingPlan({ backend: [BACKEND.mps, BACKEND.bnns, BACKEND.ane, BACKEND.bnns], what_ifs })],
    });
    const found = obstacles(placementOf(devicePlan), buildRows(table, null, devicePlan));
    expect(found).toMatchObject([
      { hypothesis: "without", ids: ["main/0", "main/1", "main/input"], effect: "planned 2 ms less", function: "" },
      { hypothesis: "doubt", ids: ["main/2"], effect: "would move 1 operation" },
    ]);
  });

  it("counts an operation once for a rule that it meets twice", () => {
    const devicePlan = plan(3, {
      reasons: [reason("a"), reason("a")],
      why: [[0, 1], [], []],
      settings: [settingPlan({ backend: [BACKEND.mps, BACKEND.mps, BACKEND.mps] })],
    });
    expect(obstacles(placementOf(devicePlan), buildRows(table, null, devicePlan))).toMatchObject([{ ids: ["main/0"] }]);
  });

  it("finds none without rules", () => expect(obstacles(placementOf(plan(3)), buildRows(table, null, plan(3)))).toEqual([]));
});
