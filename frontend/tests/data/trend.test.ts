import { describe, expect, it } from "vitest";
import type { ResultColumn, ResultTable } from "../../src/data/schema";
import { changesOf, seriesOf, stepColumns, stepsOf } from "../../src/data/trend";

const points = (values: number[]) => values.map((value, step) => ({ step, value, rows: [step] }));
const text = (name: string, values: string[]): ResultColumn => ({ ...{ name, values }, quantity: "text", meaning: "", origin: null });

describe("changes", () => {
  it("are found beyond noise, and not in noise", () => {
    const noise = [1, 1.03, 0.98, 1.01, 0.99, 1.02, 0.97, 1.0, 1.01, 0.98];
    expect(changesOf(points(noise), false)).toEqual([]);
    const [change, ...others] = changesOf(points([...noise, ...noise.map((value) => value * 1.3)]), false);
    expect(others).toEqual([]);
    expect(change?.at).toBe(10);
    expect((change?.after ?? 0) / (change?.before ?? 1)).toBeCloseTo(1.3, 2);
  });

  it("are rare in noise alone, and mostly found where they are", () => {
    let state = 1;
    const uniform = () => {
      state = (state * 48271) % 2147483647;
      return state / 2147483647;
    };
    const normal = () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform());
    const rates = (length: number) => {
      const trials = Array.from({ length: 400 }, () => Array.from({ length }, () => Math.exp(0.05 * normal())));
      const wrong = trials.filter((values) => changesOf(points(values), false).length > 0).length;
      const moved = trials.map((values) => values.map((value, index) => value * (index < length / 2 ? 1 : 1.25)));
      const right = moved.filter((values) => changesOf(points(values), false).some((change) => change.at === length / 2)).length;
      return [wrong / trials.length, right / trials.length] as const;
    };
    for (const [length, most, least] of [
      [4, 0.1, 0.2],
      [10, 0.08, 0.65],
      [20, 0.05, 0.85],
    ] as const) {
      const [wrong, right] = rates(length);
      expect(wrong).toBeLessThan(most);
      expect(right).toBeGreaterThan(least);
    }
  });

  it("are not a single outlier, but the last figure may be one", () => {
    const level = [10, 10.2, 9.9, 10.1, 10, 9.8, 10.1];
    expect(changesOf(points([...level, 20, ...level]), false)).toEqual([]);
    expect(changesOf(points([...level, 14]), false).map(({ at }) => at)).toEqual([7]);
  });

  it("are found where intervals of single runs overlap", () => {
    const slower = [10.1, 9.9, 10.3, 10, 10.2, 9.8, 13.4, 13.1, 13.6, 13.2, 13.5];
    expect(changesOf(points(slower), false).map(({ at }) => at)).toEqual([6]);
  });

  it("of exact figures are all steps of two percent", () => {
    expect(changesOf(points([1, 1, 1.01, 1.5, 1.5]), true)).toEqual([{ at: 3, step: 3, before: 1, after: 1.5 }]);
    expect(changesOf(points([2, 1]), true)).toEqual([{ at: 1, step: 1, before: 2, after: 1 }]);
  });

  it("need more than two measured figures", () => {
    expect(changesOf(points([2, 1]), false)).toEqual([]);
    expect(changesOf(points([0, 1]), true)).toEqual([]);
  });
});

describe("series", () => {
  const commit = text("labels.commit", ["bbb", "aaa", "bbb", "aaa"]);
  const figure: ResultColumn = { ...{ name: "estimated_s", values: [3, 2, 5, 5] }, quantity: "seconds", origin: "estimated", meaning: "" };
  const made = text("made_at", ["2026-01-02T00:00:00", "2026-01-01T00:00:00", "2026-01-03T00:00:00", "2026-01-01T00:00:00"]);
  const table: ResultTable = { rows: 4, columns: [text("model", ["x", "x", "y", "y"]), commit, figure, made] };

  it("follow the time of the first result of each commit", () => {
    expect(stepColumns(table)).toEqual([commit, made]);
    expect(stepsOf(table, commit)).toEqual(["aaa", "bbb"]);
  });

  it("have their changes, the largest first", () => {
    const found = seriesOf(table, [0, 1, 2, 3], figure, commit);
    expect(found.map((series) => series.name)).toEqual(["x", "y"]);
    expect(found[0]?.changes).toEqual([{ at: 1, step: 1, before: 2, after: 3 }]);
    expect(found[1]?.changes).toEqual([]);
  });
});
