import { describe, expect, it } from "vitest";
import { type Entry, histories } from "../../src/data/server";

const entry = (id: string, saved: number, changes: Partial<Entry> = {}): Entry => ({
  id,
  saved,
  model: "model",
  kind: "mlProgram",
  host: "host",
  iterations: 1,
  median_s: 1,
  low_s: 1,
  high_s: 1,
  load_s: 1,
  operations: 1,
  problem: "",
  ...changes,
});

const ids = (entries: readonly Entry[]) => histories(entries).map((history) => history.entries.map((one) => one.id));

describe("histories", () => {
  it("is empty without profiles", () => expect(histories([])).toEqual([]));

  it("orders the profiles of one model on one host from old to new", () => {
    expect(ids([entry("b", 2), entry("c", 3), entry("a", 1)])).toEqual([["a", "b", "c"]]);
  });

  it("keeps models and hosts apart, the newest history first", () => {
    const found = histories([entry("a", 1), entry("b", 2, { host: "other" }), entry("c", 3, { model: "other" }), entry("d", 4)]);
    expect(found.map(({ model, host }) => [model, host])).toEqual([
      ["model", "host"],
      ["other", "host"],
      ["model", "other"],
    ]);
  });

  it("leaves out files that cannot be shown", () => {
    expect(ids([entry("a", 1), entry("b", 2, { problem: "is not valid JSON" })])).toEqual([["a"]]);
  });

  it("does not reorder the list that it is given", () => {
    const entries = [entry("b", 2), entry("a", 1)];
    histories(entries);
    expect(entries.map((one) => one.id)).toEqual(["b", "a"]);
  });
});
