import type { Cell } from "../../data/csv";
import type { Row } from "../../data/rows";
import { ordered, pathTo, type TreeNode } from "../../data/tree";
import type { Report } from "../../report";

/** Rows as cells with a heading, numbers unformatted. */
export function toCells(report: Report, rows: Row[]): Cell[][] {
  const { placement, groups, table, estimate } = report;
  const head = [
    "id",
    "name",
    "type",
    "output",
    "status",
    "group",
    "group_measured_s",
    "unit",
    "planned_ms",
    "kernel",
    "kernel_estimated_s",
    "bound",
    "reason",
    "flops",
    "weight_bytes",
  ];
  const lines = rows.map((row): Cell[] => [
    row.id,
    row.name,
    row.type,
    row.output,
    row.status,
    row.group < 0 ? "" : row.group,
    groups[row.group]?.wall_s ?? "",
    ...(placement && row.column >= 0 ? [placement.unit(row.column) ?? "unknown", placement.costMs(row.column) ?? ""] : ["", ""]),
    row.kernel < 0 ? "" : row.kernel,
    estimate?.kernel_s[row.kernel] ?? "",
    estimate?.kernel_bound[row.kernel] ?? "",
    placement && row.column >= 0 ? (placement.obstacles(row.column)[0]?.text ?? "") : "",
    table.flops[row.op] ?? "",
    table.weight_bytes[row.op] ?? "",
  ]);
  return [head, ...lines];
}

/** Rows as tab-separated values. */
export function toTabs(cells: Cell[][]): string {
  return cells.map((row) => row.map((cell) => String(cell ?? "").replace(/[\t\r\n]/g, " ")).join("\t")).join("\n");
}

/** Groups with what is in them as cells, numbers unformatted. */
export function treeCells(root: TreeNode, measure: string): Cell[][] {
  const visit = (one: TreeNode): Cell[][] => [
    [
      pathTo(one)
        .slice(1)
        .map((node) => node.title)
        .join(" › "),
      one.leaf?.label ?? "",
      one.leaf?.rows[0]?.id ?? "",
      one.leaf?.unit ?? "",
      one.ops,
      one.isKnown ? one.amount : "",
      root.amount && one.isKnown ? one.amount / root.amount : "",
      one.flops,
      one.weightBytes,
    ],
    ...ordered(one, false).flatMap(visit),
  ];
  return [["path", "types", "id", "unit", "operations", measure, "share", "flops", "weight_bytes"], ...root.children.flatMap(visit)];
}
