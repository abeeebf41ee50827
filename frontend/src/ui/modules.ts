import { useMemo } from "preact/hooks";
import { Arguments } from "../data/arguments";
import { modulePaths } from "../data/modules";
import type { Row } from "../data/rows";
import { useReport } from "../report";

/** The path of modules of each operation of the report. */
export function useModules(): Map<Row, string[]> {
  const { rows, table } = useReport();
  return useMemo(() => {
    const known = new Arguments(table, rows, new Map());
    const weightsOf = (row: Row) => (row.op < 0 ? [] : known.weights(row).map((one) => one.name));
    return modulePaths(
      rows.all.filter((row) => row.kind !== "engine"),
      weightsOf,
    );
  }, [rows, table]);
}
