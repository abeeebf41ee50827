import { describe, expect, it } from "vitest";
import { COST_RULE, Placement } from "../../src/data/placement";
import { BACKEND, goldenPlan, inserted, placementOf, plan, reason, settingPlan } from "../fixtures";

describe("Placement", () => {
  it("reads units and costs of the golden plan", () => {
    const placement = new Placement(goldenPlan(), "all");
    expect([0, 1, 2, 3].map((column) => placement.unit(column))).toEqual(["gpu", "neural_engine", "neural_engine", "neural_engine"]);
    expect(placement.backendName(0)).toBe("mps_graph");
    expect([0, 1].map((column) => placement.costMs(column))).toEqual([0.02, 0.002]);
  });

  it("takes the setting that is asked for, else the first", () => {
    const devicePlan = plan(3, { settings: [settingPlan({}, 1), settingPlan({ compute_units: "cpu_only" }, 2)] });
    expect(placementOf(devicePlan, "cpu_only").totalMs).toBe(2);
    expect(placementOf(devicePlan, "cpu_and_gpu").totalMs).toBe(1);
  });

  it("rejects a plan without settings", () => {
    expect(() => placementOf(plan(3, { settings: [] }))).toThrow("the plan for M9");
  });

  it("knows nothing of an operation without a backend, or of a column that does not exist", () => {
    const placement = placementOf(plan(3, { settings: [settingPlan({ backend: [BACKEND.unknown, BACKEND.ane, BACKEND.ane] })] }));
    for (const column of [0, 17, -1]) {
      expect(placement.unit(column)).toBeNull();
      expect(placement.costMs(column)).toBeNull();
      expect(placement.weight(column)).toBeNull();
    }
  });

  it("marks units that the evidence does not exclude", () => {
    const settings = [
      settingPlan({
        backend: [BACKEND.ane, BACKEND.ane, BACKEND.ane],
        alternatives: { gpu: ["tie", null, "rates"] },
      }),
    ];
    const placement = placementOf(plan(3, { settings }));
    expect([0, 1, 2].map((column) => placement.mark(column, "gpu"))).toEqual(["may", "can", "may"]);
    expect(placement.mark(0, "neural_engine")).toBe("runs");
    expect([0, 1, 2].map((column) => placement.doubt(column, "gpu"))).toEqual([
      "the plan costs the same there",
      "",
      "at other likely speeds the plan goes there",
    ]);
  });

  it("has no unit for a backend that the plan does not name", () => {
    const placement = placementOf(plan(3, { settings: [settingPlan({ backend: [7, 7, 7] })] }));
    expect(placement.unit(0)).toBeNull();
  });
});

describe("weight", () => {
  it("is the part of the cost of the operation's own graph", () => {
    const settings = [settingPlan({ backend: [BACKEND.ane, BACKEND.mps, BACKEND.bnns] })];
    const placement = placementOf(plan(3, { id: ["main/0", "main/1", "main/1/body/0"], settings }));
    expect([0, 1, 2].map((column) => placement.weight(column))).toEqual([1 / 3, 2 / 3, 1]);
  });

  it("counts inserted operations with their function", () => {
    const placement = placementOf(plan(2, { inserted: [inserted("main/cast/x")] }));
    expect([placement.weight(0), placement.weight(1)]).toEqual([0.5, 0.5]);
  });

  it("is what Core ML itself says, where it does", () => {
    const settings = [settingPlan({ backend: [0, 0, 0], weight: [0.7, 0, 0.3] })];
    const placement = placementOf(plan(3, { settings }));
    expect([0, 1, 2].map((column) => placement.weight(column))).toEqual([0.7, 0, 0.3]);
  });

  it("is unknown where the graph costs nothing", () => {
    const free = plan(1, { cost_ms: { ane: [0], mps: [0], bnns: [0] } });
    expect(placementOf(free).weight(0)).toBeNull();
  });
});

describe("mark", () => {
  const devicePlan = plan(4, {
    supported: { cpu: [1, 1, 1, 1], gpu: [1, 0, -1, null], neural_engine: [1, 1, 1, 1] },
    settings: [settingPlan({ backend: [0, 0, 0, 0] }), settingPlan({ compute_units: "cpu_and_ne", backend: [0, 0, 0, 0] })],
  });

  it("tells apart what runs, could, cannot and is unknown", () => {
    const placement = placementOf(devicePlan);
    expect(placement.mark(0, "neural_engine")).toBe("runs");
    expect([0, 1, 2, 3].map((column) => placement.mark(column, "gpu"))).toEqual(["can", "cannot", "unknown", "unknown"]);
  });

  it("says that the setting bars a unit, whatever the unit supports", () => {
    const placement = placementOf(devicePlan, "cpu_and_ne");
    expect([0, 1].map((column) => placement.mark(column, "gpu"))).toEqual(["barred", "barred"]);
  });
});

describe("reasons", () => {
  const devicePlan = plan(1, {
    reasons: [
      reason("cpu-rule", { unit: "cpu" }),
      reason("gpu-rule", { unit: "gpu" }),
      reason("ne-rule"),
      reason("advice", { fix: "do so" }),
    ],
    why: [[0, 1, 2, 99]],
    advice: [[3, 99]],
    settings: [settingPlan({ backend: [BACKEND.mps] }), settingPlan({ compute_units: "cpu_only", backend: [BACKEND.bnns] })],
  });

  it("leaves out the chosen unit and starts with the Neural Engine", () => {
    const placement = placementOf(devicePlan);
    expect(placement.rules(0).map((found) => found.rule)).toEqual(["cpu-rule", "ne-rule"]);
    expect(placement.reasons(0).map((found) => found.rule)).toEqual(["ne-rule", "cpu-rule"]);
  });

  it("leaves out units that the setting bars", () => {
    expect(placementOf(devicePlan, "cpu_only").reasons(0)).toEqual([]);
  });

  it("counts as obstacles only units that are faster as a rule", () => {
    expect(
      placementOf(devicePlan)
        .obstacles(0)
        .map((found) => found.unit),
    ).toEqual(["neural_engine"]);
  });

  it("counts every unit as an obstacle where none is chosen", () => {
    const { reasons, why } = devicePlan.ops;
    const unknown = plan(1, { reasons, why, settings: [settingPlan({ backend: [BACKEND.unknown] })] });
    expect(
      placementOf(unknown)
        .obstacles(0)
        .map((found) => found.unit),
    ).toEqual(["neural_engine", "gpu", "cpu"]);
  });

  it("gives advice for the unit where it runs", () => {
    expect(placementOf(devicePlan).advice(0)).toMatchObject([{ rule: "advice", fix: "do so" }]);
    expect(placementOf(devicePlan).advice(5)).toEqual([]);
  });

  it("explains a detour by how the costs compare", () => {
    const placement = placementOf(
      plan(1, { settings: [settingPlan({ backend: [BACKEND.bnns], detour_ms: { gpu: [0.5], neural_engine: [0] } })] }),
    );
    const [engine, gpu] = placement.reasons(0);
    expect(engine).toMatchObject({ unit: "neural_engine", rule: COST_RULE });
    expect(engine?.text).toContain("would cost the same");
    expect(gpu?.text).toContain("launches and changes of unit cost more");
    expect([engine?.fix, gpu?.fix]).toEqual(["", ""]);
  });

  it("offers no remedy for a detour to the CPU", () => {
    const placement = placementOf(plan(1, { settings: [settingPlan({ backend: [BACKEND.ane], detour_ms: { cpu: [1] } })] }));
    expect(placement.reasons(0)).toMatchObject([{ unit: "cpu", fix: "" }]);
  });
});
