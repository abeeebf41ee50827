import { expect, it } from "vitest";
import { type Labelled, placeLabels } from "../../src/layout/labels";

const ROOM = { left: 0, right: 400, top: 0, bottom: 200 };
const point = (x: number, y: number, text = "palettize-4"): Labelled => ({ x, y, radius: 6, text });
const anchors = (points: Labelled[]) => {
  const spots = placeLabels(points, ROOM);
  return points.map((one) => spots.get(one)?.anchor);
};

it("writes a label at the right of its point, or at the left where the right has no room", () => {
  expect(anchors([point(200, 100)])).toEqual(["start"]);
  expect(anchors([point(380, 100)])).toEqual(["end"]);
});

it("covers no other point", () => {
  const [first] = anchors([point(200, 100), point(240, 100)]);
  expect(first).toBe("end");
  const between = point(200, 100);
  expect(placeLabels([between, point(240, 100), point(160, 100)], ROOM).get(between)?.y).not.toBe(100);
});

it("covers no other label", () => {
  const points = [point(200, 100), point(200, 108), point(200, 92)];
  const places = [...placeLabels(points, ROOM).values()].map(({ x, y, anchor }) => `${x} ${y} ${anchor}`);
  expect(new Set(places).size).toBe(places.length);
  expect(places.length).toBeGreaterThan(1);
});

it("leaves out labels without room", () => {
  expect(
    placeLabels(
      Array.from({ length: 40 }, () => point(200, 100)),
      ROOM,
    ).size,
  ).toBeLessThan(40);
  expect(placeLabels([point(200, 100, "n".repeat(80))], ROOM).size).toBe(0);
});
