import { compactType } from "../format";
import { sharedBeginning } from "./names";
import type { Group, InsertedOp, Kernel, Measurement, OpTable, Plan, PlanColumns } from "./schema";

/** `op`: from the file; `inserted`: by Core ML's compiler, according to the plan; `engine`: by the measuring engine. */
export type RowKind = "op" | "inserted" | "engine";

/** One line of the layer table. */
export interface Row {
  kind: RowKind;
  /** Its place in the program. */
  order: number;
  /** Index into the op table; -1 for rows that are not in it. */
  op: number;
  /** Its place in the plan; -1 where no plan covers it. */
  column: number;
  id: string;
  type: string;
  name: string;
  /** The author's layer, where the model is a neural network. */
  layer: string;
  layerType: string;
  function: string;
  output: string;
  /** Index into the measurement's groups; -1 for none. */
  group: number;
  /** Index into the profile's kernels; -1 for none. */
  kernel: number;
  status: string;
  depth: number;
  parent: Row | null;
  hasChildren: boolean;
}

export interface Rows {
  all: Row[];
  /** By row of the op table. */
  ops: Row[];
  byId: Map<string, Row>;
  functions: string[];
  types: string[];
  /** What most of the long names begin with; see `shortName`. */
  shared: string;
}

/** The part of a measurement that rows refer to. */
export type OpTimes = Pick<Measurement, "groups" | "group" | "status">;

/** All rows in the program's order, with nested rows linked to their owners. */
export function buildRows(table: OpTable, times: OpTimes | null, plan: Plan | null, kernels: readonly Kernel[] = []): Rows {
  const places = new Map(plan?.ops.id.map((id, place) => [id, place]));
  const ops = table.id.map((id, index) => opRow(table, index, times, places.get(id) ?? -1));
  kernels.forEach((kernel, index) => {
    for (const op of kernel.ops) {
      const row = ops[op];
      if (row) row.kernel = index;
    }
  });
  const all = plan ? withInserted(ops, plan.ops) : ops;
  times?.groups.forEach((group, index) => {
    if (group.ops.length === 0) all.push(engineRow(group, index));
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
    ops,
    byId,
    functions: [...new Set(table.function)],
    types: [...new Set(all.map((row) => row.type))].sort(),
    shared: sharedBeginning(all.map((row) => row.layer || row.name)),
  };
}

/** The rows with those that Core ML inserts, each before the row that follows it in the plan. */
function withInserted(ops: readonly Row[], planned: PlanColumns): Row[] {
  const inserted = new Map(planned.inserted.map((op) => [op.id, op]));
  const all: Row[] = [];
  let place = 0;
  const insert = () => {
    for (let op = inserted.get(planned.id[place] ?? ""); op; op = inserted.get(planned.id[place] ?? "")) all.push(insertedRow(op, place++));
  };
  for (const row of ops) {
    if (row.column >= 0) insert();
    all.push(row);
    if (row.column >= 0) place = row.column + 1;
  }
  insert();
  return all;
}

/** The ids of operations that a group or a kernel holds. */
export const idsOf = (rows: Rows, ops: readonly number[]): string[] => ops.map((op) => rows.ops[op]?.id ?? "");

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

function opRow(table: OpTable, index: number, times: OpTimes | null, column: number): Row {
  return {
    ...BLANK,
    op: index,
    column,
    id: table.id[index] ?? "",
    type: table.type[index] ?? "",
    name: table.name[index] ?? "",
    layer: table.layer[index] ?? "",
    layerType: table.layer_type[index] ?? "",
    function: table.function[index] ?? "",
    output: (table.outputs[index] ?? []).map(compactType).join(", "),
    group: times?.group[index] ?? -1,
    status: times?.status[index] ?? "",
  };
}

function insertedRow(op: InsertedOp, column: number): Row {
  return {
    ...BLANK,
    kind: "inserted",
    column,
    id: op.id,
    type: op.type,
    name: op.id.slice(op.function.length + 1),
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
