import { useMemo } from "preact/hooks";
import { Arguments } from "../data/arguments";
import { keyAttributes } from "../data/attributes";
import { outermost } from "../data/critical";
import { fold, type Part, type Sameness } from "../data/folding";
import { modulePaths } from "../data/modules";
import type { Row, Rows } from "../data/rows";
import type { ComputeUnit } from "../data/schema";
import { useReport } from "../report";

/** Several views show these; they are found once. */
const modules = new WeakMap<Rows, Map<Row, string[]>>();
const args = new WeakMap<Rows, Arguments>();

/** What the operations of the report read and make. */
export function useArguments(): Arguments {
  const { rows, table, model } = useReport();
  const inputs = model.functions.flatMap((one) => [...one.inputs, ...one.states]);
  const known = args.get(rows) ?? new Arguments(table, rows, new Map(inputs.map((one) => [one.name, one.type])));
  args.set(rows, known);
  return known;
}

/** The path of modules of each operation of the report. */
export function useModules(): Map<Row, string[]> {
  const { rows } = useReport();
  const known = useArguments();
  const weightsOf = (row: Row) => (row.op < 0 ? [] : known.weights(row).map((one) => one.name));
  const found =
    modules.get(rows) ??
    modulePaths(
      rows.all.filter((row) => row.kind !== "engine"),
      weightsOf,
    );
  modules.set(rows, found);
  return found;
}

/** The operations of functions with the values between them, in modules and equal blocks. */
export interface Programs {
  inputsOf: (row: Row) => Row[];
  unitOf: (row: Row) => ComputeUnit | null;
  /** The key attributes of an operation. */
  attributesOf: (row: Row) => string;
  functions: ReadonlyMap<string, { top: Row[]; parts: readonly Part[] }>;
}

const programs = new WeakMap<Rows, { of: unknown; programs: Programs }>();

/** The functions of the report. Blocks are equal where types, units, attributes and results are. */
export function usePrograms(): Programs {
  const { rows, table, placement } = useReport();
  const [known, paths] = [useArguments(), useModules()];
  return useMemo(() => {
    const found = programs.get(rows);
    if (found?.of === placement) return found.programs;
    const inputsOf = readers(rows, table.inputs);
    const unitOf = (row: Row) => (row.column >= 0 ? (placement?.unit(row.column) ?? null) : null);
    const attributes = new Map(rows.ops.map((row) => [row, keyAttributes(row, known)]));
    const attributesOf = (row: Row) => attributes.get(row) ?? "";
    const kind = (row: Row) => [row.type, unitOf(row), attributesOf(row), row.output].join(" ");
    const same: Sameness = { kind, unit: unitOf };
    const functions = new Map(
      rows.functions.flatMap((name) => {
        const top = rows.ops.filter((row) => row.depth === 0 && row.function === name);
        return top.length ? [[name, { top, parts: fold(top, inputsOf, paths, same) }] as const] : [];
      }),
    );
    const made = { inputsOf, unitOf, attributesOf, functions };
    programs.set(rows, { of: placement, programs: made });
    return made;
  }, [rows, table, placement, known, paths]);
}

/** Maps an operation to the producers of its inputs; inputs of nested operations count for their owners. */
function readers(rows: Rows, inputsOf: readonly (readonly number[] | null)[]): Programs["inputsOf"] {
  const found = new Map<Row, Set<Row>>();
  inputsOf.forEach((inputs, index) => {
    const reader = outermost(rows.ops[index]);
    if (!reader) return;
    const sources = found.get(reader) ?? new Set<Row>();
    for (const input of inputs ?? []) {
      const source = outermost(rows.ops[input]);
      if (source && source !== reader) sources.add(source);
    }
    found.set(reader, sources);
  });
  return (row) => [...(found.get(row) ?? [])];
}
