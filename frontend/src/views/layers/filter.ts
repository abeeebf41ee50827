import { type Filter, NO_FILTER } from "../../data/filter";
import { findingKey } from "../../data/profile";
import type { Row } from "../../data/rows";
import { obstacleKey, obstacles } from "../../data/totals";
import type { Report } from "../../report";

export type SortKey = "order" | "name" | "type" | "planned" | "measured" | "estimated" | "flops" | "weights";
export interface Sort {
  key: SortKey;
  descending: boolean;
}

/** The columns of times. */
export type TimeKey = "estimated" | "measured" | "planned";

/** The time that matters most: that of all views, else the planned cost; undefined where there is none. */
export function mainTime(report: Pick<Report, "times" | "placement">): TimeKey | undefined {
  const origin = report.times?.origin;
  if (origin === "estimated" || origin === "measured") return origin;
  return report.placement?.totalMs != null ? "planned" : undefined;
}

/** The rows that pass the filter, in the given order. */
export function arrange(report: Report, filter: Filter, sort: Sort, folded: ReadonlySet<string>): Row[] {
  const passing = report.rows.all.filter(passes(report, filter));
  if (sort.key === "order") {
    const shown = passesAll(filter) ? passing.filter((row) => !isHidden(row, folded)) : passing;
    return sort.descending ? shown.reverse() : shown;
  }
  return sorted(report, passing, sort);
}

/** Whether a filter lets every row pass. */
export const passesAll = (filter: Filter): boolean => (Object.keys(NO_FILTER) as (keyof Filter)[]).every((key) => filter[key] === "");

/** Rows of which those that a table shows alike are one, with how many each stands for; `opened` ones stay apart. */
export function joinEqual(
  { table, estimate, groups, kernels, placement }: Report,
  all: readonly Row[],
  attributesOf: (row: Row) => string,
  opened: ReadonlySet<string>,
): { rows: Row[]; times: ReadonlyMap<string, number> } {
  const first = new Map<string, Row>();
  const times = new Map<string, number>();
  const rows = all.filter((row) => {
    const { op, column, kernel, group } = row;
    const members = (kernels[kernel] ?? groups[group])?.ops ?? [];
    const seconds = [estimate?.kernel_s[kernel], groups[group]?.wall_s].map((one) => one?.toPrecision(3));
    const planned = column >= 0 && placement ? [placement.unit(column), placement.obstacles(column)[0]?.rule] : [];
    const work = [table.flops[op], table.weight_bytes[op], members.length, members[0] === op];
    const key = [row.type, row.layerType, row.output, row.status, row.kind, attributesOf(row), ...seconds, ...planned, ...work].join();
    const known = first.get(key);
    if (!known) first.set(key, row);
    const shown = known ?? row;
    times.set(shown.id, (times.get(shown.id) ?? 0) + 1);
    return !known || opened.has(known.id);
  });
  return { rows, times };
}

/** The change, finding or obstacle with a key: its text and its operations. */
export function causeOf({ answer, findings, placement, rows }: Report, key: string): { text: string; ids: readonly string[] } | undefined {
  const told = answer?.changes.find((one) => one.id === key) ?? findings.find((one) => findingKey(one) === key);
  if (told) return { text: told.text, ids: told.ops };
  const obstacle = placement && obstacles(placement, rows).find((one) => obstacleKey(one) === key);
  return obstacle ? { text: obstacle.reason.text, ids: obstacle.ids } : undefined;
}

/** Whether a row passes a filter. */
export function passes(report: Report, filter: Filter): (row: Row) => boolean {
  const words = filter.text.toLowerCase().split(/\s+/).filter(Boolean);
  const { placement, answer } = report;
  const kernels = answer?.time.find((one) => one.part === filter.part)?.kernels;
  const ops = filter.cause ? causeOf(report, filter.cause)?.ids : undefined;
  const isPart = among(kernels, (row) => row.kernel);
  const isChanged = among(ops, (row) => row.id);
  return (row) => {
    if (!isPart(row) || !isChanged(row)) return false;
    if (filter.type && row.type !== filter.type) return false;
    if (filter.function && row.function !== filter.function) return false;
    if (filter.unit && (row.column < 0 || (placement?.unit(row.column) ?? "none") !== filter.unit)) return false;
    if (filter.reason && (row.column < 0 || !placement?.obstacles(row.column).some((one) => one.rule === filter.reason))) return false;
    if (words.length === 0) return true;
    const text = `${row.name} ${row.type} ${row.id} ${row.layer} ${row.layerType} ${row.output}`.toLowerCase();
    return words.every((word) => text.includes(word));
  };
}

/** Whether a row has one of some values; every row passes where none are asked for. */
function among<T>(values: readonly T[] | undefined, of: (row: Row) => T): (row: Row) => boolean {
  const wanted = values && new Set(values);
  return (row) => !wanted || wanted.has(of(row));
}

/** Whether an owner is folded. */
function isHidden(row: Row, folded: ReadonlySet<string>): boolean {
  for (let owner = row.parent; owner; owner = owner.parent) if (folded.has(owner.id)) return true;
  return false;
}

function sorted(report: Report, rows: Row[], sort: Sort): Row[] {
  const sign = sort.descending ? -1 : 1;
  if (sort.key === "name" || sort.key === "type") {
    const collator = new Intl.Collator("en", { numeric: true });
    const key = sort.key;
    return rows.sort((a, b) => sign * collator.compare(a[key], b[key]) || a.order - b.order);
  }
  const value = sortValue(report, sort.key);
  // Unknown values are last in both directions.
  const keyed = rows.map((row) => ({ row, value: value(row) }));
  keyed.sort((a, b) => {
    if (a.value === null || b.value === null) return Number(a.value === null) - Number(b.value === null) || a.row.order - b.row.order;
    return sign * (a.value - b.value) || a.row.order - b.row.order;
  });
  return keyed.map(({ row }) => row);
}

/** The number that a column shows for a row; null where there is none. */
export function sortValue(report: Report, key: Exclude<SortKey, "name" | "type">): (row: Row) => number | null {
  const { placement, groups, table, estimate } = report;
  switch (key) {
    case "order":
      return (row) => row.order;
    case "planned":
      return (row) => (row.column < 0 ? null : (placement?.costMs(row.column) ?? null));
    case "measured":
      return (row) => groups[row.group]?.wall_s ?? null;
    case "estimated":
      return (row) => estimate?.kernel_s[row.kernel] ?? null;
    case "flops":
      return (row) => table.flops[row.op] ?? null;
    case "weights":
      return (row) => table.weight_bytes[row.op] ?? null;
  }
}
