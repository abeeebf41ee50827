import { describe, expect, it } from "vitest";
import { estimatedTimeline, measuredTimeline, plannedTimeline } from "../../src/data/lanes";
import { buildRows } from "../../src/data/rows";
import { BACKEND, estimate, first, goldenProfile, group, kernel, opTable, placementOf, plan, settingPlan } from "../fixtures";

describe("measuredTimeline", () => {
  it("places groups one after the other", () => {
    const timeline = measuredTimeline(opTable(["main/0", "main/1"]), [group("a", [0, 1], 1), group("engine", [], 2)]);
    expect(timeline).toMatchObject({ origin: "measured", seconds: 3, switches: [] });
    expect(timeline.lanes).toEqual([
      {
        title: "Measured",
        unit: "measured",
        spans: [
          { id: "main/0", label: "a", start: 0, seconds: 1 },
          { id: "", label: "engine", start: 1, seconds: 2 },
        ],
      },
    ]);
  });

  it("takes no time without groups", () => {
    const timeline = measuredTimeline(opTable([]), []);
    expect([timeline.seconds, timeline.lanes[0]?.spans]).toEqual([0, []]);
  });
});

describe("plannedTimeline", () => {
  const table = opTable(["main/0", "main/1", "main/2", "main/2/body/0"]);

  it("puts costs into the lanes of their units, with the changes of unit", () => {
    const settings = [settingPlan({ backend: [BACKEND.ane, BACKEND.bnns, BACKEND.ane, BACKEND.bnns] })];
    const devicePlan = plan(4, { settings });
    const timeline = plannedTimeline(buildRows(table, null, devicePlan).all, placementOf(table, devicePlan));
    expect(timeline.lanes.map((lane) => [lane.title, lane.spans.map((span) => [span.id, span.start, span.seconds])])).toEqual([
      [
        "Neural Engine",
        [
          ["main/0", 0, 1e-3],
          ["main/2", 5e-3, 1e-3],
        ],
      ],
      ["GPU", []],
      ["CPU", [["main/1", 1e-3, 4e-3]]],
    ]);
    expect(timeline.switches).toEqual([
      { at: 1e-3, from: "neural_engine", to: "cpu" },
      { at: 5e-3, from: "cpu", to: "neural_engine" },
    ]);
    expect(timeline.seconds).toBeCloseTo(6e-3);
  });

  it("has lanes of the device's own units only", () => {
    const devicePlan = plan(4, { units: ["cpu", "gpu"], settings: [settingPlan({ backend: [1, 1, 1, 1] })] });
    const timeline = plannedTimeline(buildRows(table, null, devicePlan).all, placementOf(table, devicePlan));
    expect(timeline.lanes.map((lane) => lane.unit)).toEqual(["gpu", "cpu"]);
  });

  it("leaves out operations without a unit or a cost", () => {
    const devicePlan = plan(4, {
      cost_ms: { ane: [0, null, 1, 1] },
      settings: [settingPlan({ backend: [BACKEND.ane, BACKEND.ane, BACKEND.unknown, BACKEND.ane] })],
    });
    const timeline = plannedTimeline(buildRows(table, null, devicePlan).all, placementOf(table, devicePlan));
    expect(timeline.seconds).toBe(0);
    expect(timeline.lanes.flatMap((lane) => lane.spans)).toEqual([]);
  });
});

describe("estimatedTimeline", () => {
  it("shows the kernels of the golden profile in the order of execution", () => {
    const { ops, kernels, estimates } = goldenProfile();
    const timeline = estimatedTimeline(ops, kernels, first(estimates));
    expect(timeline?.origin).toBe("estimated");
    expect(timeline?.lanes.flatMap((lane) => lane.spans.map((span) => [lane.unit, span.id, span.label, span.start]))).toEqual([
      ["neural_engine", "main/2", "add + layer_norm", 1e-6],
      ["gpu", "main/0", "conv + linear", 0],
    ]);
    expect(timeline?.switches).toEqual([{ at: 1e-6, from: "gpu", to: "neural_engine" }]);
  });

  it("is absent without kernel times", () => {
    expect(estimatedTimeline(opTable(["main/0"]), [kernel(0)], estimate())).toBeNull();
  });

  it("leaves out kernels without a time or a known unit", () => {
    const table = opTable(["main/0", "main/1", "main/2", "main/3"]);
    const one = estimate({ kernel_s: [0, 1, 2], kernel_unit: [0, 9, 0] });
    const timeline = estimatedTimeline(table, [kernel(1), kernel(2), kernel(3)], one);
    expect(timeline?.lanes.flatMap((lane) => lane.spans.map((span) => span.id))).toEqual(["main/3"]);
  });
});
