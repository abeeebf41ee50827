import { bytes, cost, count, duration, moment, share, shortNames } from "../format";
import type { ResultColumn, ResultTable } from "./schema";
import { settingName } from "./words";

/** The columns that say which result a row is. */
const NAMES = ["model", "variant", "function", "shapes", "device", "compute_units"];
/** Columns of long tables that are shown at first, besides the user's own. */
const FIRST = [...NAMES, "estimated_s", "measured_s", "parameters", "flops", "size_bytes"];
export type Sort = { name: string; descending: boolean } | null;
export type Wanted = { text: string; chosen: Record<string, string> };

export const EVERYTHING: Wanted = { text: "", chosen: {} };

export const isNumeric = (column: ResultColumn): boolean => column.quantity !== "text";

export const columnNamed = (table: ResultTable, name: string): ResultColumn | undefined =>
  table.columns.find((column) => column.name === name);

/** The number of a row; null where it is unknown. */
export function numberOf(column: ResultColumn | undefined, row: number): number | null {
  const value = column?.values[row];
  return typeof value === "number" ? value : null;
}

/** The heading of a column: `estimated_s` becomes `latency`, `numbers.accuracy` becomes `accuracy`. */
export const headingOf = (column: ResultColumn): string =>
  column.name
    .replace(/^(estimated|measured)_s$/, "latency")
    .replace(/^(labels|numbers)\./, "")
    .replace(/(?<=.)_(s|bytes)$/, "")
    .replaceAll("_", " ");

/** A number in the unit of its column. */
export function shownNumber(column: ResultColumn, value: number): string {
  switch (column.quantity) {
    case "seconds":
      return duration(value);
    case "milliseconds":
      return column.origin === "planned" ? cost(value) : duration(value / 1e3);
    case "bytes":
      return bytes(value);
    case "count":
      return count(value);
    case "share":
      return share(value);
    default:
      return String(Number(value.toPrecision(6)));
  }
}

/** What texts of a column are shown as; models by the shortest ends of their paths. */
export function textNames(column: ResultColumn): Map<string, string> {
  const texts = distinct(column);
  if (column.name === "model") {
    const short = shortNames(texts);
    return new Map(texts.map((text, index) => [text, short[index] ?? text]));
  }
  return new Map(texts.map((text) => [text, column.name === "compute_units" ? settingName(text) : moment(text)]));
}

const texts = new WeakMap<ResultColumn, string[]>();

/** The different texts of a column, unknown and empty ones left out, in the order of the rows. */
export function distinct(column: ResultColumn): string[] {
  const known = texts.get(column) ?? [
    ...new Set(column.values.flatMap((value) => (value === null || value === "" ? [] : [String(value)]))),
  ];
  texts.set(column, known);
  return known;
}

/** Whether rows differ in this column; unknown values differ from none. */
const varies = (column: ResultColumn): boolean => distinct(column).length > 1;

/** Whether all rows have the same value. */
const isSame = (column: ResultColumn): boolean => new Set(column.values).size === 1;

/** Columns that are the ends of the interval of another one. */
const isBound = (table: ResultTable, column: ResultColumn): boolean =>
  /_(low|high)_s$/.test(column.name) && columnNamed(table, column.name.replace(/_(low|high)_s$/, "_s")) !== undefined;

/** The ends of the interval of a row's number; null where it has none. */
export function intervalOf(table: ResultTable, column: ResultColumn, row: number): [low: number, high: number] | null {
  if (!column.name.endsWith("_s")) return null;
  const stem = column.name.slice(0, -2);
  const low = numberOf(columnNamed(table, `${stem}_low_s`), row);
  const high = numberOf(columnNamed(table, `${stem}_high_s`), row);
  return low === null || high === null ? null : [low, high];
}

/** The columns that are shown at first: those that matter to most readers. */
export function firstColumns(table: ResultTable): string[] {
  const useful = table.columns.filter((column) => !isBound(table, column) && (!isSame(column) || isNumeric(column) || table.rows === 1));
  const known = useful.filter((column) => isOwn(column) || (FIRST.includes(column.name) && (isNumeric(column) || varies(column))));
  const ordered = known.sort((a, b) => placeOf(a) - placeOf(b));
  return (ordered.length ? ordered : useful).map((column) => column.name);
}

/** Whether a column is a label or a number of the user. */
export const isOwn = (column: ResultColumn): boolean => /^(labels|numbers)\./.test(column.name);

/** The place among the columns that are shown at first; the user's own are last. */
const placeOf = (column: ResultColumn): number => (isOwn(column) ? FIRST.length : FIRST.indexOf(column.name));

/** The columns whose text is the same in all rows, with that text. */
export const sameTexts = (table: ResultTable): [ResultColumn, string][] =>
  table.rows < 2
    ? []
    : table.columns.flatMap((column): [ResultColumn, string][] => {
        const [text] = distinct(column);
        return isNumeric(column) || !isSame(column) || text === undefined || text === "no"
          ? []
          : [[column, textNames(column).get(text) ?? text]];
      });

/** Text columns with few different values that tell results apart, by which rows are chosen. */
export const choices = (table: ResultTable): ResultColumn[] =>
  table.columns.filter((column) => {
    const { length } = distinct(column);
    const isUseful = ["origin", "os", ...NAMES].includes(column.name) || isOwn(column);
    return isUseful && !isNumeric(column) && length > 1 && length <= 30 && column.name !== "model";
  });

/** The rows that have every word of the search in some text, and the chosen values. */
export function matching(table: ResultTable, wanted: Wanted): number[] {
  const words = wanted.text.toLowerCase().split(/\s+/).filter(Boolean);
  const texts = table.columns.filter((column) => !isNumeric(column));
  const chosen = Object.entries(wanted.chosen).flatMap(([name, value]) => {
    const column = columnNamed(table, name);
    return column && value ? [[column, value] as const] : [];
  });
  return Array.from({ length: table.rows }, (_, row) => row).filter((row) => {
    if (!chosen.every(([column, value]) => column.values[row] === value)) return false;
    const text = words.length
      ? texts
          .map((column) => column.values[row] ?? "")
          .join("\n")
          .toLowerCase()
      : "";
    return words.every((word) => text.includes(word));
  });
}

/** Rows in the order of a column; unknown values are last. */
export function sorted(table: ResultTable, rows: readonly number[], sort: Sort): number[] {
  const column = sort && columnNamed(table, sort.name);
  if (!column) return [...rows];
  const sign = sort.descending ? -1 : 1;
  return [...rows].sort((a, b) => {
    const [first, second] = [column.values[a] ?? null, column.values[b] ?? null];
    if (first === null || second === null) return Number(first === null) - Number(second === null) || a - b;
    const order = typeof first === "number" && typeof second === "number" ? first - second : String(first).localeCompare(String(second));
    return sign * order || a - b;
  });
}

/** Whether a column holds times. */
const isTime = (column: ResultColumn): boolean => /^(seconds|milliseconds)$/.test(column.quantity);

/** The columns of times. */
export const timesOf = (table: ResultTable): ResultColumn[] => table.columns.filter((column) => isTime(column) && !isBound(table, column));

/** The name of a column where its origin is not beside it: `estimated latency`. */
export const labelOf = (column: ResultColumn): string => (headingOf(column) === "latency" ? `${column.origin} latency` : headingOf(column));

/** The columns that times are shown against: sizes, work, and the user's own numbers. */
export const costsOf = (table: ResultTable): ResultColumn[] =>
  table.columns.filter((column) => isNumeric(column) && !isTime(column) && varies(column));

/** The time that is known of most rows: measured or estimated seconds. */
export function mainTime(table: ResultTable): ResultColumn | undefined {
  const known = (column: ResultColumn) => column.values.filter((value) => value !== null).length;
  const times = timesOf(table);
  const named = times.filter((column) => column.name === "estimated_s" || column.name === "measured_s");
  return (named.length ? named : times).sort((a, b) => known(b) - known(a))[0];
}

/** The order at first: by time. */
export function firstSort(table: ResultTable): Sort {
  const time = mainTime(table);
  return time ? { name: time.name, descending: false } : null;
}

/** What a row is called: the columns that tell results apart, those that all rows share left out. */
export function rowName(table: ResultTable, row: number, without: readonly string[] = []): string {
  const named = table.columns.filter((column) => NAMES.includes(column.name) && !without.includes(column.name));
  const texts = named.filter((column) => column.name === "model" || varies(column)).map((column) => shownText(column, row));
  return texts.filter(Boolean).join(", ") || `row ${row + 1}`;
}

const names = new WeakMap<ResultColumn, Map<string, string>>();

/** The text of a row as it is shown; empty where it is unknown. */
export function shownText(column: ResultColumn, row: number): string {
  const value = column.values[row];
  if (value === null || value === undefined) return "";
  const known = names.get(column) ?? textNames(column);
  names.set(column, known);
  return known.get(String(value)) ?? String(value);
}

/** The address of a row's report, where the query has a column `report`; only files beside the page, and web pages. */
export function reportOf(table: ResultTable, row: number): string | null {
  const value = columnNamed(table, "report")?.values[row];
  if (typeof value !== "string" || !value) return null;
  return /^https?:\/\//i.test(value) || !/^[a-z][a-z0-9+.-]*:/i.test(value) ? value : null;
}

/** The columns that say where a result was made or what it is for. */
export const PLACE = ["device", "os", "compute_units"];

/** Where a result was made, or what it is for: the device, and what differs between results of one: `M1, CPU only`. */
export const placeName = (table: ResultTable, row: number): string =>
  placeColumns(table)
    .map((column) => shownText(column, row))
    .filter(Boolean)
    .join(", ");

const places = new WeakMap<ResultTable, ResultColumn[]>();

function placeColumns(table: ResultTable): ResultColumn[] {
  const known = places.get(table);
  if (known) return known;
  const device = columnNamed(table, "device");
  const found = PLACE.flatMap((name) => {
    const column = columnNamed(table, name);
    return column && (column === device || differsWithin(column, device)) ? [column] : [];
  });
  places.set(table, found);
  return found;
}

/** Whether a column differs between rows with the same value of another one. */
function differsWithin(column: ResultColumn, other: ResultColumn | undefined): boolean {
  const first = new Map<unknown, unknown>();
  return column.values.some((value, row) => {
    const key = other?.values[row];
    if (!first.has(key)) first.set(key, value);
    return first.get(key) !== value;
  });
}

/** The rows of each place, those with most rows first. */
export function placesOf(table: ResultTable, rows: readonly number[]): Map<string, number[]> {
  const found = new Map<string, number[]>();
  for (const row of rows) {
    const name = placeName(table, row);
    const own = found.get(name);
    if (own) own.push(row);
    else found.set(name, [row]);
  }
  return new Map([...found].sort(([, a], [, b]) => b.length - a.length));
}
