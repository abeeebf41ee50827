import { expect, test } from "vitest";
import type { TraceForm } from "../../src/data/schema";
import { operationsOf, type Recorded } from "../../src/data/trace";

/** Two runs of a model: an operation, and a loop with an operation inside. */
function recorded(): Recorded {
  const rows = [0, 10].flatMap((base) => [
    [base, 8, 0, -1],
    [base, 2, 1, 0],
    [base + 2, 6, 1, 1],
    [base + 3, 2, 1, 2],
  ]);
  const column = (at: number) => Float64Array.from(rows, (row) => row[at] ?? 0);
  const zeros = new Int32Array(rows.length);
  const events = {
    length: rows.length,
    start: column(0),
    seconds: column(1),
    kind: Uint8Array.from(column(2)),
    detail: Int32Array.from(column(3)),
    group: zeros,
    process: zeros,
    thread: zeros,
  };
  const form = { kinds: [{ name: "run" }, { name: "operation" }], details: ["conv (main/1)", "while_loop (main/2)", "Add inside it"] };
  return { events, form: form as unknown as TraceForm, groups: ["net"], lanes: [], first: 0, last: 18 } as unknown as Recorded;
}

test("operations are summed by their text, without those inside a loop", () => {
  const rows = operationsOf(recorded(), null, null);
  expect(rows.map((row) => [row.model, row.operation, row.count, row.total, row.median, row.share])).toEqual([
    ["net", "while_loop (main/2)", 2, 12, 6, 0.75],
    ["net", "conv (main/1)", 2, 4, 2, 0.25],
  ]);
});

test("a selected span and model limit them", () => {
  expect(operationsOf(recorded(), [0, 8.5], null).map((row) => row.count)).toEqual([1, 1]);
  expect(operationsOf(recorded(), null, 7)).toEqual([]);
});
