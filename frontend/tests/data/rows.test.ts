import { describe, expect, it } from "vitest";
import type { ModelSummary } from "../../src/data/profile";
import { buildRows, tableOf } from "../../src/data/rows";
import { goldenPlan, goldenProfile, group, inserted, opTable, plan } from "../fixtures";

describe("tableOf", () => {
  it("gives the op table of a profile", () => {
    const profile = goldenProfile();
    expect(tableOf(profile)).toBe(profile.ops);
  });

  it("makes a table without groups of a model that was not run", () => {
    const model: ModelSummary = {
      ...goldenProfile().model,
      op_list: [
        {
          id: "main/0",
          type: "conv",
          name: "stem",
          outputs: ["tensor<fp16, [1]>"],
          flops: null,
          read_bytes: 1,
          written_bytes: 2,
          weight_bytes: 3,
          work_is_complete: false,
        },
      ],
    };
    const table = tableOf(model);
    expect(table).toMatchObject({
      id: ["main/0"],
      function: ["main"],
      flops: [null],
      group: [-1],
      status: [""],
      work_is_complete: [false],
    });
    expect(table.inputs).toBeUndefined();
  });

  it("makes an empty table of a model without listed operations", () => {
    expect(tableOf({ ...goldenProfile().model, op_list: [] }).id).toEqual([]);
  });
});

describe("buildRows", () => {
  it("builds nothing from an empty table", () => {
    const rows = buildRows(opTable([]), [], null);
    expect(rows).toMatchObject({ all: [], functions: [], types: [] });
    expect(rows.kernels.size).toBe(0);
  });

  it("builds one row for each operation of the golden profile", () => {
    const profile = goldenProfile();
    const { all, types, functions, kernels } = buildRows(profile.ops, profile.groups, goldenPlan());
    expect(all.map((row) => row.id)).toEqual(profile.ops.id);
    expect(all.map((row) => row.column)).toEqual([0, 1, 2, 3]);
    expect(all.map((row) => row.order)).toEqual([0, 1, 2, 3]);
    expect(all[0]).toMatchObject({ kind: "op", output: "fp16 1×1×64", group: 0, kernel: 0, layer: "", depth: 0, parent: null });
    expect(types).toEqual(["add", "conv", "layer_norm", "linear"]);
    expect(functions).toEqual(["main"]);
    expect([...kernels]).toEqual([
      [0, ["main/0", "main/1"]],
      [1, ["main/2", "main/3"]],
    ]);
  });

  it("joins nested operations to their owner, however deep", () => {
    const rows = buildRows(opTable(["main/0", "main/1", "main/1/body/0", "main/1/body/0/true/2"]), [], null);
    const [plain, loop, body, branch] = rows.all;
    expect(loop).toMatchObject({ hasChildren: true, depth: 0 });
    expect(body?.parent).toBe(loop);
    expect(branch?.parent).toBe(body);
    expect(branch?.depth).toBe(2);
    expect(plain?.hasChildren).toBe(false);
  });

  it("does not take an id for an owner only because it is a prefix", () => {
    const rows = buildRows(opTable(["main/1", "main/10"]), [], null);
    expect(rows.byId.get("main/10")?.parent).toBeNull();
  });

  it("uses blanks where optional columns are absent", () => {
    const row = buildRows(opTable(["main/0"]), [], null).all[0];
    expect(row).toMatchObject({ layer: "", layerType: "", kernel: -1, group: -1, column: -1 });
  });

  it("puts inserted operations before the operation that they precede, and at the end", () => {
    const table = opTable(["main/0", "main/1"]);
    const devicePlan = plan(5, { inserted: [inserted("main/cast_a", 1), inserted("main/cast_b", 1), inserted("main/cast_c", 2)] });
    const { all } = buildRows(table, [], devicePlan);
    expect(all.map((row) => row.id)).toEqual(["main/0", "main/cast_a", "main/cast_b", "main/1", "main/cast_c"]);
    expect(all.map((row) => row.column)).toEqual([0, 2, 3, 1, 4]);
    expect(all[1]).toMatchObject({ kind: "inserted", op: -1, name: "cast_a", type: "cast", output: "fp32 2", status: "inserted" });
  });

  it("leaves operations that a plan does not list without a column", () => {
    const devicePlan = plan(2);
    devicePlan.supported.cpu = [null, 1];
    expect(buildRows(opTable(["main/0", "main/1"]), [], devicePlan).all.map((row) => row.column)).toEqual([-1, 1]);
  });

  it("appends groups that the engine added and that no operation is in", () => {
    const extra = {
      ...group("reorder", [], 1e-3),
      engine_nodes: [
        ["n1", "ReorderInput"],
        ["n2", "Cast"],
      ] as [string, string][],
    };
    const { all } = buildRows(
      opTable(["main/0"], { group: [0] }),
      [group("add", ["main/0"], 1e-3), extra, { ...extra, engine_nodes: [] }],
      null,
    );
    expect(all.slice(1)).toMatchObject([
      { kind: "engine", id: "engine/1", type: "ReorderInput", name: "n1, n2", group: 1, parent: null },
      { kind: "engine", id: "engine/2", type: "reorder", name: "", group: 2 },
    ]);
  });

  it("lists every function once, in the program's order", () => {
    expect(buildRows(opTable(["prefill/0", "decode/0", "prefill/1"]), [], null).functions).toEqual(["prefill", "decode"]);
  });

  it("keeps the operations of pipeline stages apart", () => {
    const rows = buildRows(opTable(["stage0/main/0", "stage1/main/0"]), [], null);
    expect(rows.all.map((row) => [row.id, row.function, row.depth])).toEqual([
      ["stage0/main/0", "stage0", 0],
      ["stage1/main/0", "stage1", 0],
    ]);
  });
});
