import { expect, it } from "vitest";
import { cut } from "../../src/layout/cuts";

const count = (first: number, end: number) => end - first;

it("cuts a chain between all of its items", () => {
  const spans = [0, 1, 2].map((from) => ({ from, until: from + 1 }));
  expect(cut(4, spans, count)).toEqual([0, 1, 2, 3]);
});

it("keeps a residual block in one piece", () => {
  // 0 → 1 → 2 → 3, and 0 → 3; then 3 → 4
  const spans = [
    { from: 0, until: 3 },
    { from: 1, until: 2 },
    { from: 2, until: 3 },
    { from: 3, until: 4 },
  ];
  expect(cut(5, spans, count)).toEqual([0, 1, 4]);
});

it("ignores what passes a part unread", () => {
  const spans = [{ from: -1, until: 3 }, ...[0, 1].map((from) => ({ from, until: from + 1 }))];
  expect(cut(3, spans, count)).toEqual([0, 1, 2]);
});

it("cuts parts of many boxes where several values cross", () => {
  const spans = Array.from({ length: 7 }, (_, from) => [
    { from, until: Math.min(from + 2, 7) },
    { from, until: from + 1 },
  ]).flat();
  expect(cut(8, spans, count)).toHaveLength(1);
  expect(cut(8, spans, (first, end) => 20 * (end - first)).length).toBeGreaterThan(1);
});
