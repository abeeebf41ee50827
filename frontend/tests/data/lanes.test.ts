import { describe, expect, it } from "vitest";
import { fold } from "../../src/data/folding";
import {
  estimatedTimeline,
  type Lane,
  measuredTimeline,
  merged,
  moduleSpans,
  type Span,
  sumsByKind,
  type Timeline,
} from "../../src/data/lanes";
import { buildRows } from "../../src/data/rows";
import { estimate, first, goldenProfile, group, kernel, opTable } from "../fixtures";

const worksOf = (lane: Lane): Span[] => lane.spans.filter((span) => span.kind === "work");
/** The unit, the kind and the milliseconds of every span, in the order of time. */
const sequence = (timeline: Timeline): [string, string, number][] =>
  timeline.lanes
    .flatMap((lane) => lane.spans.map((span) => ({ lane, span })))
    .sort((a, b) => a.span.start - b.span.start)
    .map(({ lane, span }) => [lane.unit, span.kind, Math.round(span.seconds * 1e6) / 1e3]);

describe("measuredTimeline", () => {
  it("places groups one after the other", () => {
    const timeline = measuredTimeline(opTable(["main/0", "main/1"]), [group("a", [0, 1], 1), group("engine", [], 2)]);
    expect(timeline).toMatchObject({ origin: "measured", seconds: 3, switches: [] });
    expect(timeline.lanes).toEqual([
      {
        title: "Measured",
        unit: "measured",
        spans: [
          { kind: "work", id: "main/0", label: "a", start: 0, seconds: 1, ops: [0, 1] },
          { kind: "work", id: "", label: "engine", start: 1, seconds: 2, ops: [] },
        ],
      },
    ]);
  });

  it("takes no time without groups", () => {
    const timeline = measuredTimeline(opTable([]), []);
    expect([timeline.seconds, timeline.lanes[0]?.spans]).toEqual([0, []]);
  });
});

describe("estimatedTimeline", () => {
  it("shows the kernels of the golden profile in the order of execution", () => {
    const { ops, kernels, estimates } = goldenProfile();
    const timeline = estimatedTimeline(ops, kernels, first(estimates));
    expect(timeline?.origin).toBe("estimated");
    expect(timeline?.lanes.flatMap((lane) => worksOf(lane).map((span) => [lane.unit, span.id, span.label, span.start]))).toEqual([
      ["neural_engine", "main/2", "add + layer_norm", 1e-6],
      ["gpu", "main/0", "conv + linear", 0],
    ]);
    expect(timeline?.switches).toMatchObject([{ at: 1e-6, from: "gpu", to: "neural_engine", id: "main/2" }]);
  });

  it("shows one launch of each unit, its changes, and what is left of the latency", () => {
    const term = { compute_s: 0, weights_s: 0, activations_s: 0, operations_s: 0 };
    const one = estimate({
      ...{ kernel_s: [1, 2, 3], kernel_unit: [0, 1, 0], units: ["neural_engine", "cpu"], switches: 2, parts: { switches: 0.4 } },
      latency: { value: 7.5, low: 7, high: 8, origin: "estimated" },
      terms: [
        { ...term, unit: "neural_engine", launch_s: 0.5 },
        { ...term, unit: "cpu", launch_s: 0.25 },
      ],
    });
    const timeline = estimatedTimeline(opTable(["main/0", "main/1", "main/2"]), [kernel(0), kernel(1), kernel(2)], one);
    expect(timeline && sequence(timeline)).toEqual([
      ["neural_engine", "launch", 500],
      ["neural_engine", "work", 1000],
      ["cpu", "change", 200],
      ["cpu", "launch", 250],
      ["cpu", "work", 2000],
      ["neural_engine", "change", 200],
      ["neural_engine", "work", 3000],
      ["neural_engine", "rest", 350],
    ]);
    expect(timeline?.seconds).toBeCloseTo(7.5);
  });

  it("is absent without kernel times", () => {
    expect(estimatedTimeline(opTable(["main/0"]), [kernel(0)], estimate())).toBeNull();
  });

  it("leaves out kernels without a time or a known unit", () => {
    const table = opTable(["main/0", "main/1", "main/2", "main/3"]);
    const one = estimate({ kernel_s: [0, 1, 2], kernel_unit: [0, 9, 0] });
    const timeline = estimatedTimeline(table, [kernel(1), kernel(2), kernel(3)], one);
    expect(timeline?.lanes.flatMap((lane) => worksOf(lane).map((span) => span.id))).toEqual(["main/3"]);
  });
});

describe("moduleSpans", () => {
  it("puts modules over the time of their operations, inner ones below", () => {
    const names = ["a/b/x", "a/b/y", "a/b/z", "a/u", "c"];
    const table = opTable(
      names.map((_, index) => `main/${index}`),
      { name: names },
    );
    const timeline = measuredTimeline(
      table,
      names.map((name, index) => group(name, [index], index + 1)),
    );
    expect(moduleSpans(fold(buildRows(table, null, null).all), timeline)).toEqual([
      { title: "a", depth: 0, start: 0, seconds: 10 },
      { title: "b", depth: 1, start: 0, seconds: 6 },
    ]);
    expect(moduleSpans(fold(buildRows(table, null, null).all), measuredTimeline(table, []))).toEqual([]);
  });
});

describe("a part of a timeline", () => {
  const table = opTable(["main/0", "main/1", "main/2", "main/3"]);
  const timeline = measuredTimeline(table, [group("a", [0], 1), group("b", [1], 2), group("a", [2], 3), group("b", [3], 4)]);

  it("is summed by kind, with the whole times of what is partly in it", () => {
    const all = sumsByKind(timeline, 0, timeline.seconds);
    expect(all.map(({ label, count, seconds }) => [label, count, seconds])).toEqual([
      ["b", 2, 6],
      ["a", 2, 4],
    ]);
    expect(sumsByKind(timeline, 1, 3.5).map(({ label, count, seconds }) => [label, count, seconds])).toEqual([
      ["a", 1, 3],
      ["b", 1, 2],
    ]);
  });

  it("has equal blocks once, with their sums", () => {
    const once = merged(timeline, (op) => op % 2);
    expect(once.lanes.flatMap((lane) => lane.spans.map(({ id, start, seconds, times }) => [id, start, seconds, times]))).toEqual([
      ["main/0", 0, 4, 2],
      ["main/1", 4, 6, 2],
    ]);
    expect(sumsByKind(once, 0, 10)).toEqual(sumsByKind(timeline, 0, 10));
  });
});
