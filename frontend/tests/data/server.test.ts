import { describe, expect, it } from "vitest";
import type { Entry, Figure, Origin } from "../../src/data/schema";
import { histories } from "../../src/data/server";

const time = (value: number, origin: Origin = "measured"): Figure => ({ value, low: value, high: value, origin });

const entry = (id: string, changes: Partial<Entry> = {}): Entry => ({
  id,
  made_at: "",
  profiles: 1,
  model: "model",
  kind: "mlProgram",
  label: "host",
  predict_s: time(1),
  iterations: 1,
  load_s: 1,
  operations: 1,
  problem: "",
  ...changes,
});

const ids = (entries: readonly Entry[]) => histories(entries).map((history) => history.entries.map((one) => one.id));

describe("histories", () => {
  it("is empty without profiles", () => expect(histories([])).toEqual([]));

  it("orders the profiles of one model on one host from old to new", () => {
    expect(ids([entry("c"), entry("b"), entry("a")])).toEqual([["a", "b", "c"]]);
  });

  it("keeps models and labels apart, the newest history first", () => {
    const found = histories([entry("d"), entry("c", { model: "other" }), entry("b", { label: "other" }), entry("a")]);
    expect(found.map(({ model, label }) => [model, label])).toEqual([
      ["model", "host"],
      ["other", "host"],
      ["model", "other"],
    ]);
    expect(found[0]?.entries.map((one) => one.id)).toEqual(["a", "d"]);
  });

  it("never joins times of different origins, and keeps profiles without a time", () => {
    const found = histories([entry("c", { predict_s: null }), entry("b", { predict_s: time(1, "estimated") }), entry("a")]);
    expect(found.map(({ origin }) => origin)).toEqual([null, "estimated", "measured"]);
  });

  it("leaves out files that cannot be shown", () => {
    expect(ids([entry("b", { problem: "is not valid JSON" }), entry("a")])).toEqual([["a"]]);
  });

  it("does not reorder the list that it is given", () => {
    const entries = [entry("b"), entry("a")];
    histories(entries);
    expect(entries.map((one) => one.id)).toEqual(["b", "a"]);
  });
});
