import { columnNamed, distinct, figuresOf, isNumeric, isOwn, mainTime, numberOf, placeName, rowName, shownText } from "./results";
import type { ResultColumn, ResultTable } from "./schema";

/** The numbers of one result over commits, labels or dates. */
export interface Series {
  name: string;
  points: TrendPoint[];
  changes: Change[];
}

export interface TrendPoint {
  /** The place among the steps. */
  step: number;
  /** The median of the rows. */
  value: number;
  rows: number[];
}

/** A change that is larger than the noise around it. */
export interface Change {
  /** The index of the first point after it. */
  at: number;
  step: number;
  before: number;
  after: number;
}

/** The least change that is reported. */
const LEAST = 0.02;

/** The columns over which numbers may change: labels, versions, dates; commits first. */
export const stepColumns = (table: ResultTable): ResultColumn[] =>
  table.columns.filter(
    (column) =>
      (isOwn(column) ? column.name.startsWith("labels.") : /^(version|commit|date|made_at)$/.test(column.name)) &&
      !isNumeric(column) &&
      distinct(column).length > 1,
  );

/** Whether some result has the figure at two steps of some column. */
export function hasTrend(table: ResultTable): boolean {
  const figure = mainTime(table) ?? figuresOf(table)[0];
  const rows = Array.from({ length: table.rows }, (_, row) => row);
  return figure !== undefined && stepColumns(table).some((by) => seriesOf(table, rows, figure, by).length > 0);
}

/** The steps of a column in their order in time: that of dates, or else of the first result of each. */
export function stepsOf(table: ResultTable, column: ResultColumn): string[] {
  const made = columnNamed(table, "made_at");
  const first = new Map<string, string>();
  column.values.forEach((value, row) => {
    if (value === null || value === "") return;
    const [text, time] = [String(value), String(made?.values[row] ?? "")];
    const known = first.get(text);
    if (known === undefined || time < known) first.set(text, time);
  });
  const steps = [...first.keys()];
  const isDated = steps.every((text) => /^\d{4}-\d\d/.test(text));
  const key = (text: string) => (isDated ? text : (first.get(text) ?? ""));
  return steps.sort((a, b) => key(a).localeCompare(key(b)));
}

/** Each result with numbers at two steps or more, those with the largest changes first. */
export function seriesOf(table: ResultTable, rows: readonly number[], figure: ResultColumn, by: ResultColumn): Series[] {
  const steps = new Map(stepsOf(table, by).map((text, index) => [text, index]));
  const found = new Map<string, Map<number, number[]>>();
  for (const row of rows) {
    const step = steps.get(String(by.values[row] ?? ""));
    if (step === undefined || numberOf(figure, row) === null) continue;
    const name = seriesName(table, row, by);
    const own = found.get(name) ?? new Map<number, number[]>();
    own.set(step, [...(own.get(step) ?? []), row]);
    found.set(name, own);
  }
  const isExact = figure.origin !== null && figure.origin !== "measured";
  const made = [...found].flatMap(([name, own]): Series[] => {
    if (own.size < 2) return [];
    const points = [...own]
      .sort(([a], [b]) => a - b)
      .map(([step, listed]) => ({ step, rows: listed, value: median(listed.map((row) => numberOf(figure, row) ?? 0)) }));
    return [{ name, points, changes: changesOf(points, isExact) }];
  });
  return made.sort((a, b) => largest(b) - largest(a));
}

/** What a series is called: the result and its place, without the steps. */
function seriesName(table: ResultTable, row: number, by: ResultColumn): string {
  const result = rowName(table, row, [by.name, "device", "os", "compute_units"]);
  const label = table.columns.filter((column) => column.name.startsWith("labels.") && column !== by && column.name !== "labels.commit");
  const own = label.length <= 2 ? label.map((column) => shownText(column, row)) : [];
  return [result, placeName(table, row), ...own].filter(Boolean).join(", ");
}

const largest = (series: Series): number => Math.max(0, ...series.changes.map(({ before, after }) => Math.abs(Math.log(after / before))));

/**
 * The changes of the level of a series, by binary segmentation of logarithms (Scott and Knott 1974): a part is divided where that
 * reduces the squared deviations most, if by more than a penalty; σ² follows from the median difference of neighbours.
 * A single outlier is no change. Numbers without noise change wherever they differ.
 */
export function changesOf(points: readonly Pick<TrendPoint, "step" | "value">[], isExact: boolean): Change[] {
  if (points.some(({ value }) => value <= 0)) return [];
  const logs = points.map(({ value }) => Math.log(value));
  const differences = logs.slice(1).map((value, index) => Math.abs(value - (logs[index] ?? 0)));
  // 1.4826 makes the median absolute deviation that of a normal distribution; a difference has twice the variance.
  const variance = isExact ? 0 : (1.4826 * median(differences)) ** 2 / 2;
  const cuts = divided(isExact ? logs : withoutOutliers(logs), 0, logs.length, variance * penaltyOf(logs.length));
  for (;;) {
    const edges = [0, ...cuts, points.length];
    const levels = edges.slice(1).map((edge, index) => median(points.slice(edges[index], edge).map(({ value }) => value)));
    const changes = cuts.map((at, index): Change => {
      return { at, step: points[at]?.step ?? 0, before: levels[index] ?? 0, after: levels[index + 1] ?? 0 };
    });
    const sizes = changes.map(({ before, after }) => Math.abs(after / before - 1));
    const least = Math.min(...sizes);
    if (least >= LEAST) return changes;
    cuts.splice(sizes.indexOf(least), 1);
  }
}

/**
 * The penalty of a change in σ². By simulation: of series of 4 to 6 normal values without a change at most 7 % get one, of 20
 * values 2 %; short series need more, since their σ is uncertain.
 */
const penaltyOf = (length: number): number => 5 * (Math.log(length) + 5 / length);

/** Values of which each, but for the first and last one, is the median of itself and its neighbours. */
const withoutOutliers = (values: readonly number[]): number[] =>
  values.map((value, index) => {
    const [before, after] = [values[index - 1], values[index + 1]];
    return before === undefined || after === undefined ? value : median([before, value, after]);
  });

/** The indices at which a part of a series is divided. */
function divided(values: readonly number[], from: number, to: number, penalty: number): number[] {
  const whole = deviations(values, from, to);
  let [best, at] = [0, 0];
  for (let cut = from + 1; cut < to; cut++) {
    const gain = whole - deviations(values, from, cut) - deviations(values, cut, to);
    if (gain > best) [best, at] = [gain, cut];
  }
  if (best <= penalty + 1e-9) return [];
  return [...divided(values, from, at, penalty), at, ...divided(values, at, to, penalty)];
}

/** The sum of squared deviations from the mean. */
function deviations(values: readonly number[], from: number, to: number): number {
  let [sum, squares] = [0, 0];
  for (const value of values.slice(from, to)) {
    sum += value;
    squares += value * value;
  }
  return squares - (sum * sum) / (to - from);
}

function median(values: readonly number[]): number {
  const ordered = [...values].sort((a, b) => a - b);
  const half = ordered.length >> 1;
  const upper = ordered[half] ?? 0;
  return ordered.length % 2 ? upper : ((ordered[half - 1] ?? 0) + upper) / 2;
}
