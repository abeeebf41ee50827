import { describe, expect, it } from "vitest";
import { changes, elsewhere, estimateBadges, isWhole, measurementBadges, proposed, spending, timeShares } from "../../src/data/answers";
import { buildRows } from "../../src/data/rows";
import type { Answer, Estimate, Proposal, StageTiming } from "../../src/data/schema";
import {
  BACKEND,
  estimate,
  finding,
  first,
  group,
  kernel,
  measurement,
  opTable,
  placementOf,
  plan,
  reason,
  settingPlan,
  times,
  whatIf,
} from "../fixtures";

const IDS = ["main/0", "main/1", "main/2", "main/3"];
const NE = 2;
const CPU = 0;

const stage = (name: string, absent: string): StageTiming => ({
  ...{ name, kind: "neuralNetwork", absent, origin: "measured" },
  ...{ run_s: null, convert_s: null, operations_s: null },
});

/** Three kernels on two units that take 6 of 10 seconds. */
const mixed = (changed: Partial<Estimate> = {}): Estimate =>
  estimate({
    latency: { value: 10, low: 8, high: 12, origin: "estimated" },
    ...{ kernel_s: [3, 1, 2], kernel_unit: [NE, CPU, NE] },
    ...changed,
  });

describe("badges", () => {
  it("tell what limits an estimate", () => {
    const texts = (changed: Partial<Estimate>) => estimateBadges(estimate(changed)).map((badge) => badge.text);
    expect(texts({})).toEqual([]);
    expect(texts({ basis: "extrapolated", left_out: ["model0"] })).toEqual(["extrapolated", "incomplete"]);
  });

  it("tell what a measurement lacks", () => {
    const whole = measurement("a", { stages: [stage("model1", "")], findings: [], partial: null });
    expect(measurementBadges(whole)).toEqual([]);
    expect(isWhole(whole)).toBe(true);
    const part = measurement("a", {
      stages: [stage("model0", "it is Apple's"), stage("model1", "")],
      findings: [finding("random-weights"), finding("layer-not-run")],
      partial: { cause: "interrupted", phase: "predict", text: "the user ended it" },
    });
    expect(measurementBadges(part).map((badge) => badge.text)).toEqual([
      "synthetic weights",
      "model0 not run",
      "1 layer not run",
      "partial",
    ]);
    expect(isWhole(part)).toBe(false);
  });
});

describe("where the time goes", () => {
  const table = opTable(IDS, { type: ["conv", "relu", "linear", "conv"], name: ["stem", "act", "head", "last"] });
  const kernels = [kernel(0, 1), kernel(2), kernel(3)];
  const nothing = { table, kernels, estimate: null, groups: [] };

  it("is estimated for the device", () => {
    const found = spending({ ...nothing, estimate: mixed() });
    expect(found?.origin).toBe("estimated");
    expect(found?.dearest.map((one) => [one.name, one.seconds, one.unit])).toEqual([
      ["stem", 3, "neural_engine"],
      ["last", 2, "neural_engine"],
      ["head", 1, "cpu"],
    ]);
    expect(found?.totalSeconds).toBe(10);
  });

  it("sums equal operations of equal blocks once", () => {
    const equal = mixed({ kernel_s: [2, 1, 2], kernel_unit: [NE, CPU, NE] });
    const kernels = [kernel(0), kernel(1), kernel(0)];
    const found = spending({ ...nothing, kernels, estimate: equal });
    expect(found?.dearest.map((one) => [one.times, one.seconds])).toEqual([
      [2, 4],
      [1, 1],
    ]);
  });

  it("is else measured: what a plan charges is no time", () => {
    const measured = spending({ ...nothing, groups: [group("conv + relu", [0, 1], 2), group("linear", [2], 6)] });
    expect(measured?.dearest.map((one) => one.label)).toEqual(["linear", "conv + relu"]);
    expect([measured?.origin, measured?.totalSeconds]).toEqual(["measured", 8]);
    expect(spending(nothing)).toBeNull();
  });

  it("divides among the units that take any of it", () => {
    expect(timeShares({ placement: { cpu: 0.25, neural_engine: 0.75, gpu: 0 } })).toEqual([
      { unit: "neural_engine", part: 0.75 },
      { unit: "cpu", part: 0.25 },
    ]);
  });
});

describe("changes", () => {
  const table = opTable(IDS);

  it("are those whose estimated saving leaves out 0", () => {
    const saved = (low: number) => ({ value: 2e-3, low, high: 3e-3, origin: "estimated" }) as const;
    const whatIfs = [
      whatIf({ rule: "a", fix: "reshape", reason: "rank 6", ops: [1, 2], saved_ms: 5, saved_s: saved(1e-3) }),
      whatIf({ rule: "b", reason: "too wide", ops: [3], saved_ms: 1 }),
      whatIf({ rule: "c", fix: "nothing gained", saved_s: saved(-1e-3) }),
      whatIf({ rule: "d", hypothesis: "doubt", fix: "a doubt", saved_s: saved(1e-3) }),
    ];
    const made = plan(4, { settings: [settingPlan({ backend: [0, 0, 0, 0], what_ifs: whatIfs })] });
    const found = changes({ placement: placementOf(table, made), rows: buildRows(table, times(4), made), findings: [] });
    expect(found.map((one) => [one.text, one.saving, one.certainty, one.ids])).toEqual([
      ["reshape", "saves 2.00 ms (1.00 ms – 3.00 ms)", "likely", ["main/1", "main/2"]],
    ]);
  });
});

describe("operations elsewhere", () => {
  const table = opTable(IDS.slice(0, 3));

  it("are counted by the first reason against the Neural Engine", () => {
    const made = plan(3, {
      reasons: [reason("rank")],
      supported: { cpu: [1, 1, 1], gpu: [1, 1, 1], neural_engine: [0, null, 1] },
      why: [[0], [], []],
      settings: [settingPlan({ backend: [BACKEND.bnns, BACKEND.bnns, BACKEND.ane] })],
    });
    const found = elsewhere(placementOf(table, made), buildRows(table, times(3), made));
    expect(found?.count).toBe(2);
    expect(found?.reasons).toEqual([{ rule: "rank", text: "text of rank", ids: ["main/0"] }]);
    expect([found?.unexplained, found?.types]).toEqual([["main/1"], ["add"]]);
  });

  it("are grouped by how the costs compare, without the costs of one of them", () => {
    const made = plan(3, {
      cost_ms: { ane: [1, 1, 4], mps: [9, 9, 9], bnns: [2, 2, 1] },
      settings: [settingPlan({ backend: [BACKEND.bnns, BACKEND.bnns, BACKEND.bnns], detour_ms: { neural_engine: [3, 4, 5] } })],
    });
    const found = elsewhere(placementOf(table, made), buildRows(table, times(3), made));
    expect(found?.reasons.map(({ ids }) => ids)).toEqual([["main/0", "main/1"], ["main/2"]]);
    expect(found?.reasons[0]?.text).toMatch(/for less or the same, but launches/);
    expect(found?.reasons[1]?.text).toMatch(/but costs more there/);
  });

  it("are not asked for where the setting forbids it", () => {
    const made = plan(3, { settings: [settingPlan({ compute_units: "cpu_only", backend: [2, 2, 2] })] });
    expect(first(made.settings).compute_units).toBe("cpu_only");
    expect(elsewhere(placementOf(table, made, "cpu_only"), buildRows(table, times(3), made))).toBeNull();
  });
});

describe("proposals of an answer", () => {
  const proposal = (changed: Partial<Proposal>): Proposal => ({
    ...{ id: "setting", text: "", certainty: "likely", before_s: 0.004, after: null },
    ...{ saved_bytes: 0, code: "", command: "", is_checked: true },
    ...changed,
  });
  const to = (value: number) => ({ value, low: value, high: value, origin: "estimated" as const });

  it("have bars by their gains, and come with all of them together", () => {
    const proposals = [proposal({ after: to(0.002) }), proposal({ after: to(0.003) }), proposal({ saved_bytes: 2e6 })];
    const found = proposed({ proposals, together: proposal({ after: to(0.001) }) } as unknown as Answer, "");
    expect(found.map((one) => one.part)).toEqual([2 / 3, 1 / 3, 0, 1]);
    expect(found.map((one) => one.saving)).toEqual(["4.00 ms → 2.00 ms", "4.00 ms → 3.00 ms", "2.00 MB less", "4.00 ms → 1.00 ms"]);
  });
});
