import { compactType } from "../format";
import type { DevicePlan, Group, ModelSummary, OpTable, Profile } from "./profile";

/** `op`: from the file; `inserted`: by Core ML's compiler, according to the plan; `engine`: by the measuring engine. */
export type RowKind = "op" | "inserted" | "engine";

/** One line of the layer table. */
export interface Row {
  kind: RowKind;
  /** Its place in the program. */
  order: number;
  /** Index into the op table; -1 for rows that are not in it. */
  op: number;
  /** Index into the columns of a plan; -1 where no plan covers it. */
  column: number;
  id: string;
  type: string;
  name: string;
  /** The author's layer, where the model is a neural network. */
  layer: string;
  layerType: string;
  function: string;
  output: string;
  /** Index into the profile's groups; -1 for none. */
  group: number;
  /** Index into a plan's kernels; -1 for none. */
  kernel: number;
  status: string;
  depth: number;
  parent: Row | null;
  hasChildren: boolean;
}

export interface Rows {
  all: Row[];
  byId: Map<string, Row>;
  functions: string[];
  types: string[];
  /** The ids of each kernel's operations. */
  kernels: Map<number, string[]>;
}

/** The op table of a result; that of a model without a profile has no times. */
export function tableOf(result: Profile | ModelSummary): OpTable {
  if (result.schema === "coremlscope.profile/1") return result.ops;
  const list = result.op_list;
  return {
    id: list.map((op) => op.id),
    type: list.map((op) => op.type),
    name: list.map((op) => op.name),
    function: list.map((op) => op.id.split("/", 1)[0] ?? ""),
    outputs: list.map((op) => op.outputs),
    flops: list.map((op) => op.flops),
    read_bytes: list.map((op) => op.read_bytes),
    written_bytes: list.map((op) => op.written_bytes),
    weight_bytes: list.map((op) => op.weight_bytes),
    group: list.map(() => -1),
    status: list.map(() => ""),
    work_is_complete: list.map((op) => op.work_is_complete),
  };
}

/** All rows in the program's order, with nested rows linked to their owners. */
export function buildRows(table: OpTable, groups: Group[], plan: DevicePlan | null): Rows {
  const ops = table.id.map((_, index) => opRow(table, index, plan));
  const inserted = plan?.inserted ?? [];
  const before = new Map<number, Row[]>();
  inserted.forEach((op, index) => {
    const row = insertedRow(op, ops.length + index);
    const list = before.get(op.before);
    if (list) list.push(row);
    else before.set(op.before, [row]);
  });
  const all: Row[] = [];
  for (let index = 0; index <= ops.length; index++) {
    all.push(...(before.get(index) ?? []));
    const row = ops[index];
    if (row) all.push(row);
  }
  groups.forEach((group, index) => {
    if (group.op_ids.length === 0) all.push(engineRow(group, index));
  });
  const byId = new Map(all.map((row) => [row.id, row]));
  all.forEach((row, order) => {
    row.order = order;
    row.parent = ownerOf(row, byId);
    if (row.parent) row.parent.hasChildren = true;
  });
  for (const row of all) row.depth = row.parent ? row.parent.depth + 1 : 0;
  return {
    all,
    byId,
    functions: [...new Set(table.function)],
    types: [...new Set(all.map((row) => row.type))].sort(),
    kernels: kernelsOf(all),
  };
}

function kernelsOf(rows: Row[]): Map<number, string[]> {
  const kernels = new Map<number, string[]>();
  for (const row of rows) {
    if (row.kernel < 0) continue;
    const members = kernels.get(row.kernel);
    if (members) members.push(row.id);
    else kernels.set(row.kernel, [row.id]);
  }
  return kernels;
}

/** The innermost row that contains this one: `main/7` for `main/7/body/3`. */
function ownerOf(row: Row, byId: Map<string, Row>): Row | null {
  if (row.kind === "engine") return null;
  for (let end = row.id.lastIndexOf("/"); end > 0; end = row.id.lastIndexOf("/", end - 1)) {
    const owner = byId.get(row.id.slice(0, end));
    if (owner) return owner;
  }
  return null;
}

const BLANK: Row = {
  kind: "op",
  order: 0,
  op: -1,
  column: -1,
  id: "",
  type: "",
  name: "",
  layer: "",
  layerType: "",
  function: "",
  output: "",
  group: -1,
  kernel: -1,
  status: "",
  depth: 0,
  parent: null,
  hasChildren: false,
};

function opRow(table: OpTable, index: number, plan: DevicePlan | null): Row {
  return {
    ...BLANK,
    op: index,
    column: plan?.supported.cpu[index] == null ? -1 : index,
    id: table.id[index] ?? "",
    type: table.type[index] ?? "",
    name: table.name[index] ?? "",
    layer: table.layer?.[index] ?? "",
    layerType: table.layer_type?.[index] ?? "",
    function: table.function[index] ?? "",
    output: (table.outputs[index] ?? []).map(compactType).join(", "),
    group: table.group[index] ?? -1,
    kernel: table.kernel?.[index] ?? -1,
    status: table.status[index] ?? "",
  };
}

function insertedRow(op: DevicePlan["inserted"][number], column: number): Row {
  return {
    ...BLANK,
    kind: "inserted",
    column,
    id: op.id,
    type: op.type,
    name: op.id.slice(op.id.indexOf("/") + 1),
    function: op.function,
    output: op.outputs.map(compactType).join(", "),
    status: "inserted",
  };
}

function engineRow(group: Group, index: number): Row {
  return {
    ...BLANK,
    kind: "engine",
    id: `engine/${index}`,
    type: group.engine_nodes[0]?.[1] ?? group.label,
    name: group.engine_nodes.map(([name]) => name).join(", "),
    group: index,
    status: "engine",
  };
}
