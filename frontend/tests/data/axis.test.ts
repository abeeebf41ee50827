import { expect, test } from "vitest";
import { axis } from "../../src/data/axis";

const gaps = (at: number[]) => at.slice(1).map((place, index) => Math.abs(place - (at[index] ?? 0)));

test.each([
  ["linear", [3.7e6, 14.1e6]],
  ["logarithmic", [1e3, 1e9]],
])("keeps the numbers of a narrow %s axis apart", (_, values) => {
  for (const width of [240, 400, 1200]) {
    const { place, ticks } = axis(values, [0, width], 64, true);
    expect(ticks.length).toBeGreaterThan(1);
    expect(Math.min(...gaps(ticks.map(place)))).toBeGreaterThan(40);
  }
});

test("has more numbers where there is room", () => {
  expect(axis([3.7e6, 14.1e6], [0, 1200], 64, true).ticks.length).toBeGreaterThan(axis([3.7e6, 14.1e6], [0, 240], 64, true).ticks.length);
});
