import { Arguments } from "../data/arguments";
import { modulePaths } from "../data/modules";
import type { Row, Rows } from "../data/rows";
import { useReport } from "../report";

/** Several views show modules; they are found once. */
const found = new WeakMap<Rows, Map<Row, string[]>>();

/** The path of modules of each operation of the report. */
export function useModules(): Map<Row, string[]> {
  const { rows, table } = useReport();
  const known = found.get(rows);
  if (known) return known;
  const args = new Arguments(table, rows, new Map());
  const weightsOf = (row: Row) => (row.op < 0 ? [] : args.weights(row).map((one) => one.name));
  const paths = modulePaths(
    rows.all.filter((row) => row.kind !== "engine"),
    weightsOf,
  );
  found.set(rows, paths);
  return paths;
}
