import type { Row } from "../../data/rows";
import type { Report } from "../../report";

/** Rows as tab-separated values with a heading, numbers unformatted. */
export function toTabs(report: Report, rows: Row[]): string {
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
  const lines = rows.map((row) => [
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
  return [head, ...lines].map((cells) => cells.map((cell) => String(cell).replace(/[\t\r\n]/g, " ")).join("\t")).join("\n");
}
