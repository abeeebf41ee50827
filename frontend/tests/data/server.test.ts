import { describe, expect, it } from "vitest";
import type { Entry, Figure, Origin } from "../../src/data/schema";
import { comparison, countTags, histories, progress, search } from "../../src/data/server";

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
  remarks: [],
  tags: [],
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

describe("search", () => {
  const all = [entry("a", { model: "MobileNet", tags: ["slow"] }), entry("b", { label: "Apple M1", made_at: "2026-01-31T12:00:00Z" })];
  const found = (text: string) => search(all, text).map((one) => one.id);

  it("finds words in names, labels, tags and dates, in any case", () => {
    expect(found("mobile")).toEqual(["a"]);
    expect(found("SLOW")).toEqual(["a"]);
    expect(found("apple 2026-01")).toEqual(["b"]);
  });

  it("needs every word", () => expect(found("mobilenet apple")).toEqual([]));
  it("shows everything without words", () => expect(found("  ")).toEqual(["a", "b"]));
});

describe("tags", () => {
  it("are counted, the most frequent first", () => {
    const all = [entry("a", { tags: ["x", "y"] }), entry("b", { tags: ["y"] }), entry("c")];
    expect(countTags(all)).toEqual([
      ["y", 2],
      ["x", 1],
    ]);
  });
});

describe("comparison", () => {
  it("has the oldest entry as its base, with names encoded", () => {
    const newestFirst = [entry("new&1"), entry("middle"), entry("old/2")];
    expect(comparison(newestFirst, new Set(["new&1", "old/2"]))).toBe("compare?id=old%2F2&id=new%261");
  });
});

describe("progress", () => {
  const job = (done: number, total: number) => ({ done, total }) as Parameters<typeof progress>[0];
  it("is a share of the phase", () => expect(progress(job(3, 4))).toBe(0.75));
  it("is unknown without a total", () => expect(progress(job(0, 0))).toBeUndefined());
  it("is never more than all", () => expect(progress(job(5, 4))).toBe(1));
});
