import { describe, expect, it } from "vitest";
import { buildRows, idsOf } from "../../src/data/rows";
import { goldenMeasurement, goldenPlan, goldenProfile, group, inserted, kernel, opTable, plan, times } from "../fixtures";

describe("buildRows", () => {
  it("builds nothing from an empty table", () => {
    const rows = buildRows(opTable([]), null, null);
    expect(rows).toEqual({ all: [], ops: [], byId: new Map(), functions: [], types: [], shared: "" });
  });

  it("builds one row for each operation of the golden profile", () => {
    const profile = goldenProfile();
    const { all, ops, types, functions } = buildRows(profile.ops, goldenMeasurement(), goldenPlan(), profile.kernels);
    expect(all.map((row) => row.id)).toEqual(profile.ops.id);
    expect(all.map((row) => row.column)).toEqual([0, 1, 2, 3]);
    expect(all.map((row) => row.order)).toEqual([0, 1, 2, 3]);
    expect(all[0]).toMatchObject({ kind: "op", output: "fp16 1×1×64", group: 0, kernel: 0, layer: "", depth: 0, parent: null });
    expect(types).toEqual(["add", "conv", "layer_norm", "linear"]);
    expect(functions).toEqual(["main"]);
    expect(all.map((row) => row.kernel)).toEqual([0, 0, 1, 1]);
    expect(ops).toEqual(all);
  });

  it("joins nested operations to their owner, however deep", () => {
    const rows = buildRows(opTable(["main/0", "main/1", "main/1/body/0", "main/1/body/0/true/2"]), null, null);
    const [plain, loop, body, branch] = rows.all;
    expect(loop).toMatchObject({ hasChildren: true, depth: 0 });
    expect(body?.parent).toBe(loop);
    expect(branch?.parent).toBe(body);
    expect(branch?.depth).toBe(2);
    expect(plain?.hasChildren).toBe(false);
  });

  it("does not take an id for an owner only because it is a prefix", () => {
    const rows = buildRows(opTable(["main/1", "main/10"]), null, null);
    expect(rows.byId.get("main/10")?.parent).toBeNull();
  });

  it("uses blanks where nothing was measured or planned", () => {
    const row = buildRows(opTable(["main/0"]), null, null).all[0];
    expect(row).toMatchObject({ layer: "", layerType: "", status: "", kernel: -1, group: -1, column: -1 });
  });

  it("puts inserted operations before the operation that they precede, and at the end", () => {
    const table = opTable(["main/0", "main/1"]);
    const id = ["main/0", "main/cast_a", "main/cast_b", "main/1", "main/cast_c"];
    const devicePlan = plan(5, { id, inserted: [inserted("main/cast_a"), inserted("main/cast_b"), inserted("main/cast_c")] });
    const { all } = buildRows(table, null, devicePlan);
    expect(all.map((row) => row.id)).toEqual(["main/0", "main/cast_a", "main/cast_b", "main/1", "main/cast_c"]);
    expect(all.map((row) => row.column)).toEqual([0, 1, 2, 3, 4]);
    expect(all[1]).toMatchObject({ kind: "inserted", op: -1, name: "cast_a", type: "cast", output: "fp32 2", status: "inserted" });
  });

  it("leaves operations that a plan does not list without a column", () => {
    const devicePlan = plan(1, { id: ["main/1"] });
    expect(buildRows(opTable(["main/0", "main/1"]), null, devicePlan).all.map((row) => row.column)).toEqual([-1, 0]);
  });

  it("appends groups that the engine added and that no operation is in", () => {
    const extra = {
      ...group("reorder", [], 1e-3),
      engine_nodes: [
        ["n1", "ReorderInput"],
        ["n2", "Cast"],
      ] as [string, string][],
    };
    const groups = [group("add", [0], 1e-3), extra, { ...extra, engine_nodes: [] }];
    const { all } = buildRows(opTable(["main/0"]), times(1, groups), null);
    expect(all.slice(1)).toMatchObject([
      { kind: "engine", id: "engine/1", type: "ReorderInput", name: "n1, n2", group: 1, parent: null },
      { kind: "engine", id: "engine/2", type: "reorder", name: "", group: 2 },
    ]);
  });

  it("lists every function once, in the program's order", () => {
    expect(buildRows(opTable(["prefill/0", "decode/0", "prefill/1"]), null, null).functions).toEqual(["prefill", "decode"]);
  });

  it("keeps the operations of pipeline stages apart", () => {
    const ids = ["stage0/main/0", "stage1/main/0"];
    const rows = buildRows(opTable(ids, { function: ["stage0/main", "stage1/main"] }), null, null);
    expect(rows.all.map((row) => [row.id, row.function, row.depth])).toEqual([
      ["stage0/main/0", "stage0/main", 0],
      ["stage1/main/0", "stage1/main", 0],
    ]);
  });

  it("ignores operations of kernels that the table does not hold", () => {
    const { all } = buildRows(opTable(["main/0"]), null, null, [kernel(7), kernel(0)]);
    expect(all.map((row) => row.kernel)).toEqual([1]);
  });

  it("shows a measurement without operation times as no times", () => {
    const { all } = buildRows(opTable(["main/0"]), { groups: [], group: [], status: [] }, null);
    expect(all).toMatchObject([{ group: -1, status: "" }]);
  });
});

describe("idsOf", () => {
  it("gives the ids of rows", () => {
    const rows = buildRows(opTable(["main/0", "main/1"]), null, plan(3, { inserted: [inserted("main/cast")] }));
    expect(idsOf(rows, [1, 0])).toEqual(["main/1", "main/0"]);
  });
});
