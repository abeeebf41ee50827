/** Operations as a tree with totals: by module, repeated block, type or kernel. */
import { type Fold, fold, isFold, type Part } from "./folding";
import type { Placement } from "./placement";
import { kernelLabel } from "./profile";
import type { Row, Rows } from "./rows";
import type { ComputeUnit, Estimate, Group, Kernel, OpTable } from "./schema";

export type Grouping = "module" | "block" | "type" | "kernel";

/** What a node's width stands for. */
export type Measure = "estimated" | "measured" | "planned" | "flops" | "weights";

export type LeafUnit = ComputeUnit | "overhead" | null;

/** Operations whose time is known together: it is never split among them. */
export interface Leaf {
  /** The first represents them; empty for launches and changes of unit. */
  rows: Row[];
  title: string;
  label: string;
  unit: LeafUnit;
  /** Null where it is not known. */
  amount: number | null;
}

export interface TreeNode {
  key: string;
  title: string;
  /** Null for the groups of others. */
  leaf: Leaf | null;
  children: TreeNode[];
  parent: TreeNode | null;
  depth: number;
  /** Its operations, those inside included. */
  ops: number;
  amount: number;
  /** Whether the amount of anything inside is known. */
  isKnown: boolean;
  /** The amount on each unit. */
  units: Map<LeafUnit, number>;
  flops: number;
  /** False where the FLOPs of an operation are unknown or a lower bound. */
  isComplete: boolean;
  weightBytes: number;
  /** The place of its first operation in the program. */
  order: number;
}

/** What a tree is made from. */
export interface Source {
  table: OpTable;
  rows: Rows;
  kernels: readonly Kernel[];
  groups: readonly Group[];
  estimate: Estimate | null;
  placement: Placement | null;
}

/** The measures that a report has data for, the one that matters most first. */
export function measuresOf(source: Source): Measure[] {
  const { estimate, groups, placement, table } = source;
  const found: Measure[] = [];
  if (estimate?.kernel_s.length) found.push("estimated");
  if (groups.length > 0) found.push("measured");
  if (placement?.totalMs != null) found.push("planned");
  if (table.flops.some((flops) => flops)) found.push("flops");
  if (table.weight_bytes.some((size) => size)) found.push("weights");
  return found;
}

/** The parts of a tree that have an amount of their own. */
export function leavesOf(source: Source, measure: Measure): Leaf[] {
  const { table, rows, groups, kernels, estimate } = source;
  if (measure === "estimated" && estimate) {
    const parts = kernels.map((one, index) =>
      together(source, one.ops, kernelLabel(table.type, one), estimate.kernel_s[index] ?? 0, index),
    );
    const sum = parts.reduce((total, one) => total + (one.amount ?? 0), 0);
    const rest = estimate.latency.value - sum;
    const overhead: Leaf = {
      rows: [],
      title: "launches, changes of unit",
      label: "Launches of units, changes between them, and conversions of inputs and outputs",
      unit: "overhead",
      amount: rest,
    };
    return [
      ...parts,
      ...alone(
        source,
        (row) => row.kernel < 0 && row.kind !== "engine",
        () => null,
      ),
      ...(rest > 0 && sum > 0 ? [overhead] : []),
    ];
  }
  if (measure === "measured") {
    const parts = groups.map((one, index) => {
      const engine = one.ops.length === 0 ? rows.all.filter((row) => row.kind === "engine" && row.group === index) : undefined;
      return together(source, one.ops, one.label, one.wall_s, -1, engine);
    });
    return [
      ...parts,
      ...alone(
        source,
        (row) => row.group < 0 && row.kind === "op",
        () => null,
      ),
    ];
  }
  const amount = (row: Row): number | null => {
    if (measure === "flops") return table.flops[row.op] ?? null;
    if (measure === "weights") return table.weight_bytes[row.op] ?? null;
    // The planned cost of a loop includes what is in it.
    const cost = row.column < 0 || row.depth > 0 ? null : source.placement?.costMs(row.column);
    return cost == null ? null : cost / 1e3;
  };
  return alone(source, (row) => row.kind !== "engine", amount);
}

function together(source: Source, ops: readonly number[], label: string, amount: number, kernel: number, known?: Row[]): Leaf {
  const { rows, estimate } = source;
  const members = known ?? ops.map((op) => rows.ops[op]).filter((row) => !!row);
  const named = members.find((row) => row.layer) ?? members.at(-1);
  const estimated = kernel < 0 ? undefined : estimate?.units[estimate.kernel_unit[kernel] ?? -1];
  const unit = estimated ?? (members[0] ? unitOf(source, members[0]) : null);
  return { rows: members, title: named?.layer || named?.name || label, label, unit, amount };
}

function alone(source: Source, isIncluded: (row: Row) => boolean, amount: (row: Row) => number | null): Leaf[] {
  return source.rows.all
    .filter(isIncluded)
    .map((row) => ({ rows: [row], title: row.layer || row.name, label: row.type, unit: unitOf(source, row), amount: amount(row) }));
}

const unitOf = ({ placement }: Source, row: Row): ComputeUnit | null => (row.column < 0 ? null : (placement?.unit(row.column) ?? null));

/** Where operations are that belong to no module. */
const OUTSIDE: Step[] = [{ key: "/", title: "outside modules" }];

/** A step of the path to a leaf. */
interface Step {
  key: string;
  title: string;
}

/** Groups leaves as a tree, in the program's order. */
export function buildTree(leaves: readonly Leaf[], grouping: Grouping, source: Source, modules: ReadonlyMap<Row, string[]>): TreeNode {
  const root = node("", "all", null);
  const groups = new Map<string, TreeNode>();
  const pathOf = paths(grouping, source, modules);
  leaves.forEach((leaf, index) => {
    let owner = root;
    for (const step of leaf.rows.length > 0 ? pathOf(leaf) : []) {
      const key = `${owner.key}\n${step.key}`;
      let group = groups.get(key);
      if (!group) {
        group = node(key, step.title, owner);
        owner.children.push(group);
        groups.set(key, group);
      }
      owner = group;
    }
    const child = node(`${owner.key}\n#${leaf.rows[0]?.id ?? index}`, leaf.title, owner);
    child.leaf = leaf;
    owner.children.push(child);
  });
  root.children = root.children.map((child) => joined(child, root));
  addTotals(root, source.table);
  return root;
}

/** Joins a group with the only one that it contains; a group of one leaf is that leaf, by the group's name. */
function joined(one: TreeNode, parent: TreeNode): TreeNode {
  const only = one.children.length === 1 ? one.children[0] : undefined;
  if (only) {
    only.title = only.leaf ? one.title : `${one.title}/${only.title}`;
    return joined(only, parent);
  }
  one.parent = parent;
  one.depth = parent.depth + 1;
  one.children = one.children.map((child) => joined(child, one));
  return one;
}

const node = (key: string, title: string, parent: TreeNode | null): TreeNode => ({
  ...{ key, title, parent, leaf: null, children: [], depth: parent ? parent.depth + 1 : 0, ops: 0, amount: 0, isKnown: false },
  ...{ units: new Map(), flops: 0, isComplete: true, weightBytes: 0, order: Number.POSITIVE_INFINITY },
});

function addTotals(one: TreeNode, table: OpTable): void {
  const { leaf } = one;
  if (leaf) {
    one.amount = leaf.amount ?? 0;
    one.isKnown = leaf.amount !== null;
    one.ops = leaf.rows.filter((row) => row.kind !== "engine").length;
    if (leaf.amount !== null) one.units.set(leaf.unit, leaf.amount);
    one.order = leaf.rows[0]?.order ?? Number.POSITIVE_INFINITY;
    for (const { op } of leaf.rows) {
      if (op < 0) continue;
      one.flops += table.flops[op] ?? 0;
      one.isComplete &&= table.flops[op] != null && (table.work_is_complete[op] ?? true);
      one.weightBytes += table.weight_bytes[op] ?? 0;
    }
    return;
  }
  for (const child of one.children) {
    addTotals(child, table);
    one.amount += child.amount;
    one.isKnown ||= child.isKnown;
    one.ops += child.ops;
    one.flops += child.flops;
    one.isComplete &&= child.isComplete;
    one.weightBytes += child.weightBytes;
    one.order = Math.min(one.order, child.order);
    for (const [unit, amount] of child.units) one.units.set(unit, (one.units.get(unit) ?? 0) + amount);
  }
}

function paths(grouping: Grouping, source: Source, modules: ReadonlyMap<Row, string[]>): (leaf: Leaf) => Step[] {
  const plain = (titles: readonly string[]): Step[] => titles.map((title) => ({ key: title, title }));
  const hasModules = [...modules.values()].some((path) => path.length > 0);
  switch (grouping) {
    case "module":
      return (leaf) => {
        const found = modules.get(mainRow(leaf, source.table)) ?? [];
        return found.length > 0 || !hasModules ? plain(found) : OUTSIDE;
      };
    case "block": {
      const steps = blockPaths(source.rows);
      return (leaf) => steps.get(outermost(leaf.rows[0])) ?? [];
    }
    case "type":
      return (leaf) => plain([mainRow(leaf, source.table).type]);
    case "kernel":
      return (leaf) => plain([leaf.label]);
  }
}

const outermost = (row: Row | undefined): Row | undefined => (row?.parent ? outermost(row.parent) : row);

/** The operation with the most FLOPs, which a group that runs together counts for. */
function mainRow(leaf: Leaf, table: OpTable): Row {
  const flops = (row: Row) => table.flops[row.op] ?? 0;
  return leaf.rows.reduce((most, row) => (flops(row) > flops(most) ? row : most), leaf.rows[0] as Row);
}

function blockPaths(rows: Rows): Map<Row | undefined, Step[]> {
  const found = new Map<Row | undefined, Step[]>();
  const visit = (parts: readonly Part[], path: Step[]): void => {
    for (const part of parts) {
      if (isFold(part)) visit((part as Fold).parts, [...path, { key: part.id, title: part.title }]);
      else found.set(part, path);
    }
  };
  for (const name of rows.functions)
    visit(fold(rows.all.filter((row) => row.kind === "op" && row.depth === 0 && row.function === name)), []);
  return found;
}

/** The children of a node that have an amount: the largest first, or in the program's order. */
export function ordered(one: TreeNode, isByAmount: boolean): TreeNode[] {
  return [...one.children].sort((a, b) => (isByAmount && b.amount - a.amount) || a.order - b.order);
}

/** The unit with most of the amount; that of its leaf for a leaf. */
export function mainUnit(one: TreeNode): LeafUnit {
  let [unit, most]: [LeafUnit, number] = [null, -1];
  for (const [key, amount] of one.units) if (amount > most) [unit, most] = [key, amount];
  return unit;
}

/** The titles on the way to a node, the outermost first. */
export function pathTo(one: TreeNode): TreeNode[] {
  return one.parent ? [...pathTo(one.parent), one] : [one];
}
