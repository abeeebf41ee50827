import { describe, expect, it } from "vitest";
import { Placement } from "../../src/data/placement";
import { buildRows } from "../../src/data/rows";
import { buildTree, leavesOf, measuresOf, ordered, pathTo, type Source, type TreeNode } from "../../src/data/tree";
import { BACKEND, estimate, first, group, kernel, opTable, plan, settingPlan, times } from "../fixtures";

const IDS = ["main/0", "main/1", "main/2", "main/3"];
const TYPES = ["conv", "relu", "conv", "add"];

/** Four operations: two kernels, one group that was measured, and a plan with the last one on the CPU. */
function source(): Source {
  const table = opTable(IDS, { type: TYPES, flops: [50, 5, 20, null], weight_bytes: [8, 0, 4, 0] });
  const groups = [group("conv + relu", [0, 1], 0.5), group("conv", [2], 0.25)];
  const made = plan(4, { settings: [settingPlan({ backend: [BACKEND.ane, BACKEND.ane, BACKEND.ane, BACKEND.bnns] }, 7)] });
  const kernels = [kernel(0, 1), kernel(2), kernel(3)];
  return {
    table,
    rows: buildRows(table, times(4, groups), made, kernels),
    kernels,
    groups,
    estimate: estimate({ kernel_s: [0.4, 0.1, 0.2], kernel_unit: [2, 2, 0], kernel_bound: ["compute", "compute", "compute"] }),
    placement: new Placement(made, "all"),
  };
}

const MODULES = [["net", "a"], ["net"], ["net", "b"], []];
const modulesOf = (of: Source) => new Map(of.rows.all.map((row, index) => [row, MODULES[index] ?? []]));

/** `title amount ops` of each node, indented by depth. */
const lines = (one: TreeNode): string[] => [
  ...(one.parent ? [`${"  ".repeat(one.depth - 1)}${one.title} ${one.amount.toFixed(2)} ${one.ops}`] : []),
  ...ordered(one, false).flatMap(lines),
];

const tree = (of: Source, measure: Parameters<typeof leavesOf>[1], by: Parameters<typeof buildTree>[1]) =>
  buildTree(leavesOf(of, measure), by, of, modulesOf(of));

describe("trees of operations", () => {
  it("add up to the estimate, launches and changes of unit included", () => {
    const of = source();
    for (const by of ["module", "block", "type", "kernel"] as const) {
      const root = tree(of, "estimated", by);
      expect(root.amount).toBeCloseTo(1);
      expect(root.ops).toBe(4);
      expect(root.units.get("overhead")).toBeCloseTo(0.3);
    }
  });

  it("group by module; a group that runs together is never split", () => {
    expect(lines(tree(source(), "estimated", "module"))).toEqual([
      "net 0.50 3",
      "  a 0.40 2",
      "  b 0.10 1",
      "outside modules 0.20 1",
      "launches, changes of unit 0.30 0",
    ]);
  });

  it("group by type and by kernel", () => {
    expect(lines(tree(source(), "estimated", "type")).filter((line) => !line.startsWith(" "))).toEqual([
      "conv 0.50 3",
      "add 0.20 1",
      "launches, changes of unit 0.30 0",
    ]);
    expect(lines(tree(source(), "measured", "kernel"))).toEqual(["conv + relu 0.50 2", "conv 0.25 1", "add 0.00 1"]);
  });

  it("sum units, FLOPs and weights, and say where FLOPs are a lower bound", () => {
    const root = tree(source(), "planned", "module");
    expect([...root.units]).toEqual([
      ["neural_engine", 0.003],
      ["cpu", 0.004],
    ]);
    expect([root.flops, root.isComplete, root.weightBytes]).toEqual([75, false, 12]);
    const net = first(root.children);
    expect([net.flops, net.isComplete]).toEqual([75, true]);
    expect(tree(source(), "flops", "module").amount).toBe(75);
    expect(tree(source(), "weights", "module").amount).toBe(12);
  });

  it("do not take what is not known for zero", () => {
    const root = tree(source(), "measured", "type");
    const add = first(root.children.filter((one) => one.leaf?.rows[0]?.type === "add"));
    expect([add.isKnown, root.isKnown, [...add.units]]).toEqual([false, true, []]);
  });

  it("order the largest first on request, and know the way to a node", () => {
    const root = tree(source(), "estimated", "type");
    expect(ordered(root, true).map((one) => one.title)).toEqual(["conv", "launches, changes of unit", "add"]);
    const inner = first(first(root.children).children);
    expect(pathTo(inner).map((one) => one.title)).toEqual(["all", "conv", inner.title]);
  });

  it("have the measures that there are data for", () => {
    const of = source();
    expect(measuresOf(of)).toEqual(["estimated", "measured", "planned", "flops", "weights"]);
    const bare = { ...of, estimate: null, groups: [], placement: null, table: opTable(IDS, { flops: IDS.map(() => null) }) };
    expect(measuresOf(bare)).toEqual([]);
  });
});
