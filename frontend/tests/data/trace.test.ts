import { expect, test } from "vitest";
import type { TraceForm } from "../../src/data/schema";
import { readTrace, totalsOf } from "../../src/data/trace";

async function packed(dtype: string, values: Int32Array<ArrayBuffer> | BigInt64Array<ArrayBuffer> | Uint8Array<ArrayBuffer>) {
  const stream = new Blob([values]).stream().pipeThrough(new CompressionStream("deflate"));
  const data = new Uint8Array(await new Response(stream).arrayBuffer());
  return `${dtype}:${btoa(String.fromCharCode(...data))}`;
}

const words = (values: readonly number[]) => packed("<i4", Int32Array.from(values));
const longs = (values: readonly number[]) => packed("<i8", BigInt64Array.from(values, BigInt));
const octets = (values: readonly number[]) => packed("|u1", Uint8Array.from(values));

/** A load and a prediction of one model, and an interval of a compute unit during the prediction. */
const form = async () =>
  ({
    duration_ns: 100,
    models: [{ name: "Net", key: "", function: "" }],
    kinds: [
      { name: "load", lane: "activity" },
      { name: "predict", lane: "activity" },
      { name: "GPU busy", lane: "compute" },
    ],
    events: {
      start_ns: await longs([0, 50, 60]),
      duration_ns: await longs([40, 40, 20]),
      kind: await octets([0, 1, 2]),
      model: await words([0, 0, -1]),
      process: await words([0, 0, 0]),
      thread: await words([0, 0, 0]),
      task: await words([0, 0, 0]),
      site: await words([0, 0, 0]),
      detail: await words([0, 0, 0]),
      bytes: await longs([0, 0, 0]),
      flags: await octets([0, 0, 0]),
      depth: await octets([0, 0, 0]),
    },
  }) as unknown as TraceForm;

test("a compute unit has a lane and is no model", async () => {
  const recorded = await readTrace(await form());
  expect(recorded.groups).toEqual(["Net"]);
  expect(recorded.lanes.map((lane) => [lane.lane, lane.title, lane.group])).toEqual([
    ["activity", "Net", 0],
    ["compute", "GPU", -1],
  ]);
  expect(totalsOf(recorded, null, null).map((row) => [row.model, row.kind])).toEqual([
    ["Net", "load"],
    ["Net", "predict"],
    ["", "GPU busy"],
  ]);
});
