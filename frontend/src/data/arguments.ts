/** What operations read and who reads their results, from the details of the op table. */
import type { Row, Rows } from "./rows";
import type { OpDetails, OpTable, WeightKind } from "./schema";

/** What is given for a parameter of an operation. */
export interface Given {
  /** Empty where only the dataflow is known. */
  parameter: string;
  name: string;
  /** As in MIL text; empty where it is not known. */
  type: string;
  /** The operation that makes it; null for weights and for inputs. */
  maker: Row | null;
  /** Index into the weights; -1 for others. */
  weight: number;
}

/** A result of an operation. */
export interface Made {
  name: string;
  type: string;
  readers: Row[];
}

/** A weight, with what is known of its values. */
export interface Weight extends WeightKind {
  parameter: string;
  name: string;
  storedBytes: number;
  /** Null where no values were read. */
  least: number | null;
  greatest: number | null;
  lookedAt: number;
  /** Of the type; null where a size is not known. */
  elements: number | null;
  histogram: number[];
}

/** The arguments of the operations of a table. */
export class Arguments {
  /** The row that makes each result, and its place among the row's results. */
  private readonly makers: { row: Row; place: number }[] = [];
  /** The first result of each row. */
  private readonly offsets: number[] = [];
  /** By result: the rows that read it. */
  private readonly readersOf = new Map<number, Row[]>();
  private readonly details: OpDetails | undefined;

  constructor(
    private readonly table: OpTable,
    rows: Rows,
    /** The types of the function's inputs by name. */
    private readonly inputs: ReadonlyMap<string, string>,
  ) {
    this.details = table.details?.signature.length ? table.details : undefined;
    rows.ops.forEach((row) => {
      this.offsets.push(this.makers.length);
      const count = this.details ? (table.output_names[row.op]?.length ?? 0) : 1;
      for (let place = 0; place < count; place++) this.makers.push({ row, place });
    });
    rows.ops.forEach((row) => {
      for (const result of new Set(this.resultsRead(row))) {
        const readers = this.readersOf.get(result);
        if (readers) readers.push(row);
        else this.readersOf.set(result, [row]);
      }
    });
  }

  private resultsRead(row: Row): number[] {
    if (!this.details) return (this.table.inputs[row.op] ?? []).map((op) => this.offsets[op] ?? -1).filter((one) => one >= 0);
    return (this.details.arguments[row.op] ?? []).filter((one): one is number => typeof one === "number" && one >= 0);
  }

  /** Values and weights that an operation reads. */
  given(row: Row): Given[] {
    if (!this.details) return this.resultsRead(row).map((result) => this.result("", result));
    const signature = this.details.signatures[this.details.signature[row.op] ?? -1];
    return (this.details.arguments[row.op] ?? []).map((one, place): Given => {
      const parameter = signature?.parameters[place] ?? "";
      if (typeof one === "string") return { parameter, name: one, type: this.inputs.get(one) ?? "", maker: null, weight: -1 };
      if (one >= 0) return this.result(parameter, one);
      const weights = this.details?.weights;
      const kind = weights?.kinds[weights.kind[-1 - one] ?? -1];
      return { parameter, name: weights?.name[-1 - one] ?? "", type: kind?.type ?? "", maker: null, weight: -1 - one };
    });
  }

  private result(parameter: string, result: number): Given {
    const made = this.makers[result];
    const op = made?.row.op ?? -1;
    return {
      parameter,
      name: this.table.output_names[op]?.[made?.place ?? 0] ?? made?.row.name ?? "",
      type: this.table.outputs[op]?.[made?.place ?? 0] ?? "",
      maker: made?.row ?? null,
      weight: -1,
    };
  }

  /** The constants of an operation, as text. */
  attributes(row: Row): [string, string][] {
    return this.details?.signatures[this.details.signature[row.op] ?? -1]?.attributes ?? [];
  }

  /** The results of an operation with the operations that read them. */
  made(row: Row): Made[] {
    const names = this.table.output_names[row.op] ?? [];
    return (this.table.outputs[row.op] ?? []).map((type, place) => ({
      name: names[place] ?? "",
      type,
      readers: this.details || place === 0 ? (this.readersOf.get((this.offsets[row.op] ?? 0) + place) ?? []) : [],
    }));
  }

  /** The weights that an operation reads, those of decompressing operations before it included. */
  weights(row: Row): Weight[] {
    return this.given(row).flatMap((one): Weight[] => {
      if (one.weight >= 0) return [this.weight(one.parameter, one.weight)];
      if (!one.maker?.type.startsWith("constexpr_")) return [];
      return this.weights(one.maker).map((inner) => ({ ...inner, parameter: `${one.parameter}: ${inner.parameter}` }));
    });
  }

  private weight(parameter: string, index: number): Weight {
    const table = this.details?.weights;
    const kind = table?.kinds[table.kind[index] ?? -1] ?? { type: "", storage: "" };
    return {
      ...kind,
      parameter,
      name: table?.name[index] ?? "",
      storedBytes: table?.stored_bytes[index] ?? 0,
      least: table?.least[index] ?? null,
      greatest: table?.greatest[index] ?? null,
      lookedAt: table?.looked_at[index] ?? 0,
      elements: elementsOf(kind.type),
      histogram: table?.histogram[index] ?? [],
    };
  }

  /** The operation as in MIL text; empty where its arguments are not known. */
  milLine(row: Row): string {
    if ((this.details?.signature[row.op] ?? -1) < 0) return "";
    const results = this.made(row).map((one) => `${one.type} ${one.name}`);
    const given = new Map<string, string[]>();
    for (const one of this.given(row)) {
      const text = one.name || one.type;
      const list = given.get(one.parameter);
      if (list) list.push(text);
      else given.set(one.parameter, [text]);
    }
    const variadic = (texts: string[]) => (texts.length > 1 ? `(${texts.join(", ")})` : (texts[0] ?? ""));
    const pairs: [string, string][] = [
      ...[...given].map(([key, texts]): [string, string] => [key, variadic(texts)]),
      ...this.attributes(row),
    ];
    const list = pairs.sort(([a], [b]) => (a < b ? -1 : 1)).map(([key, text]) => `${key} = ${text}`);
    return `${results.join(", ")} = ${row.type}(${list.join(", ")})[name = "${row.name}"]`;
  }
}

/** The number of elements of a tensor type in MIL text; null where a size is not known. */
function elementsOf(type: string): number | null {
  const sizes = /\[([^\]]*)\]/.exec(type)?.[1];
  if (sizes === undefined || /[?.]/.test(sizes)) return null;
  return sizes.split(",").reduce((product, size) => (size.trim() ? product * Number(size) : product), 1);
}
