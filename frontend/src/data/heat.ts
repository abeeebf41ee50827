import { columnNamed, isNumeric, numberOf, PLACE, placesOf, rowName } from "./results";
import type { ResultColumn, ResultTable } from "./schema";

/** The result of a model in a place. */
export interface HeatCell {
  /** The newest row. */
  row: number;
  value: number;
  /** Number of rows. */
  count: number;
  /** From 0 for the smallest number to 1 for the largest. */
  heat: number;
}

export interface HeatLine {
  name: string;
  /** One for each place; null where there is no number. */
  cells: (HeatCell | null)[];
}

/** The numbers of a column by model and place; heat compares all of them, or those of each model. */
export function heatLines(table: ResultTable, rows: readonly number[], column: ResultColumn, isByModel: boolean): [string[], HeatLine[]] {
  const known = rows.filter((row) => numberOf(column, row) !== null);
  const places = [...placesOf(table, known)];
  const names = [...new Set(known.map((row) => rowName(table, row, PLACE)))];
  const found = new Map<string, number[]>();
  places.forEach(([, own], place) => {
    for (const row of own) {
      const key = `${place} ${rowName(table, row, PLACE)}`;
      const listed = found.get(key);
      if (listed) listed.push(row);
      else found.set(key, [row]);
    }
  });
  const lines = names.map((name) => ({
    name,
    cells: places.map((_, place): HeatCell | null => {
      const own = found.get(`${place} ${name}`);
      const row = own && newest(table, own);
      return row === undefined ? null : { row, value: numberOf(column, row) ?? 0, count: own?.length ?? 0, heat: 0 };
    }),
  }));
  if (isByModel) for (const line of lines) warm(line.cells);
  else warm(lines.flatMap((line) => line.cells));
  return [places.map(([place]) => place || (columnNamed(table, "device") ? "unknown device" : "all rows")), lines];
}

/** The row that was made last. */
function newest(table: ResultTable, rows: readonly number[]): number | undefined {
  const made = columnNamed(table, "made_at");
  const time = (row: number) => String((made && !isNumeric(made) && made.values[row]) ?? "");
  return [...rows].sort((a, b) => time(b).localeCompare(time(a)) || a - b)[0];
}

/** Sets the heat of cells: by the logarithm of positive numbers, else by the numbers themselves. */
function warm(cells: readonly (HeatCell | null)[]): void {
  const known = cells.flatMap((cell) => cell ?? []);
  const isPositive = known.every(({ value }) => value > 0);
  const scaled = (value: number) => (isPositive ? Math.log(value) : value);
  const values = known.map(({ value }) => scaled(value));
  const least = values.reduce((a, b) => Math.min(a, b), Number.POSITIVE_INFINITY);
  const most = values.reduce((a, b) => Math.max(a, b), Number.NEGATIVE_INFINITY);
  for (const cell of known) cell.heat = most > least ? (scaled(cell.value) - least) / (most - least) : 0;
}
