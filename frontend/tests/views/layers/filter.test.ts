import { describe, expect, it } from "vitest";
import { TABLE } from "../../../src/data/address";
import { type Filter, NO_FILTER } from "../../../src/data/filter";
import { targetsOf } from "../../../src/data/profile";
import { buildRows } from "../../../src/data/rows";
import type { Group, OpTable, Plan } from "../../../src/data/schema";
import type { Report } from "../../../src/report";
import { arrange, type Sort } from "../../../src/views/layers/filter";
import { toCells, toTabs } from "../../../src/views/layers/text";
import { BACKEND, goldenProfile, group, opTable, placementOf, plan, reason, settingPlan, times } from "../../fixtures";

function report(table: OpTable, groups: Group[] = [], devicePlan: Plan | null = null): Report {
  const targets = targetsOf({ plans: devicePlan ? [devicePlan] : [], estimates: [] });
  return {
    model: goldenProfile().model,
    profile: null,
    table,
    rows: buildRows(table, times(table.id.length, groups), devicePlan),
    findings: [],
    measurements: [],
    measurement: null,
    measuredBy: undefined,
    groups,
    kernels: [],
    targets,
    target: targets[0] ?? null,
    setting: "all",
    times: null,
    placement: devicePlan && placementOf(devicePlan),
    answer: null,
    estimate: null,
    chooseMeasurement: () => undefined,
    chooseTarget: () => undefined,
    selected: null,
    select: () => undefined,
    showOp: () => undefined,
    filter: NO_FILTER,
    setFilter: () => undefined,
    layers: TABLE,
    setLayers: () => undefined,
    showOnly: () => undefined,
  };
}

const ORDER: Sort = { key: "order", descending: false };
const shown = (one: Report, filter: Partial<Filter> = {}, sort: Sort = ORDER, folded: string[] = []) =>
  arrange(one, { ...NO_FILTER, ...filter }, sort, new Set(folded)).map((row) => row.id);

describe("arrange", () => {
  const nested = report(
    opTable(["main/0", "main/1", "main/1/body/0", "aux/0"], {
      type: ["conv", "while_loop", "relu", "conv"],
      name: ["stem10", "loop", "inner", "stem9"],
    }),
  );

  it("shows everything in the program's order", () => expect(shown(nested)).toEqual(["main/0", "main/1", "main/1/body/0", "aux/0"]));

  it("hides what is nested in a folded row, but not from a search", () => {
    expect(shown(nested, {}, ORDER, ["main/1"])).toEqual(["main/0", "main/1", "aux/0"]);
    expect(shown(nested, { text: "inner" }, ORDER, ["main/1"])).toEqual(["main/1/body/0"]);
  });

  it("searches for every word, in any case and column", () => {
    expect(shown(nested, { text: " CONV stem9 " })).toEqual(["aux/0"]);
    expect(shown(nested, { text: "fp16 nothing" })).toEqual([]);
  });

  it("filters by type and function", () => {
    expect(shown(nested, { type: "conv" })).toEqual(["main/0", "aux/0"]);
    expect(shown(nested, { type: "conv", function: "main" })).toEqual(["main/0"]);
  });

  it("sorts names by their numbers", () => {
    expect(shown(nested, { type: "conv" }, { key: "name", descending: false })).toEqual(["aux/0", "main/0"]);
  });

  it("filters by unit, unknown ones included, and by reason", () => {
    const table = opTable(["main/0", "main/1", "main/2"]);
    const devicePlan = plan(3, {
      reasons: [reason("rule")],
      why: [[], [0], []],
      settings: [settingPlan({ backend: [BACKEND.ane, BACKEND.bnns, BACKEND.unknown] })],
    });
    const planned = report(table, [], devicePlan);
    expect(shown(planned, { unit: "cpu" })).toEqual(["main/1"]);
    expect(shown(planned, { unit: "none" })).toEqual(["main/2"]);
    expect(shown(planned, { reason: "rule" })).toEqual(["main/1"]);
    expect(shown(report(table), { unit: "cpu" })).toEqual([]);
  });

  it("sorts unknown values last in both directions", () => {
    const one = report(opTable(["main/0", "main/1", "main/2"], { flops: [null, 1, 2] }));
    expect(shown(one, {}, { key: "flops", descending: false })).toEqual(["main/1", "main/2", "main/0"]);
    expect(shown(one, {}, { key: "flops", descending: true })).toEqual(["main/2", "main/1", "main/0"]);
  });

  it("keeps the program's order among equal values", () => {
    const groups = [group("a", [0, 1], 1), group("b", [2], 2)];
    const one = report(opTable(["main/0", "main/1", "main/2"]), groups);
    expect(shown(one, {}, { key: "measured", descending: true })).toEqual(["main/2", "main/0", "main/1"]);
  });
});

describe("toTabs", () => {
  it("writes one line for each row and keeps foreign text in its cell", () => {
    const one = report(opTable(["main/0"], { name: ["a\tb\nc"] }), [group("add", [0], 0.5)], plan(1));
    const [head, line, ...rest] = toTabs(toCells(one, one.rows.all)).split("\n");
    const cells = Object.fromEntries((head ?? "").split("\t").map((name, index) => [name, line?.split("\t")[index]]));
    expect(cells).toMatchObject({
      id: "main/0",
      name: "a b c",
      group: "0",
      group_measured_s: "0.5",
      unit: "neural_engine",
      planned_ms: "1",
      kernel: "",
    });
    expect(rest).toEqual([]);
  });

  it("leaves cells empty that a model without a profile has no value for", () => {
    const one = report(opTable(["main/0"], { flops: [null] }));
    expect(toTabs(toCells(one, one.rows.all)).split("\n")[1]).toBe("main/0\tname of main/0\tadd\tfp16 1×3\ttimed\t\t\t\t\t\t\t\t\t\t0");
  });
});
