import { describe, expect, it } from "vitest";
import { beginning, READABLE, whole } from "../../../src/views/graph/paths";

const first = { x: 900, y: 40, width: 160, height: 40 };

describe("an unfolded drawing", () => {
  it("begins at the top with readable names where the whole is too small for them", () => {
    const view = beginning({ width: 2000, height: 1600 }, first, 1000, 700);
    expect(whole({ width: 2000, height: 1600 }, 1000, 700).scale).toBeLessThan(READABLE);
    expect(view.scale).toBe(READABLE);
    expect(view.y).toBe(0);
    expect(view.x).toBeGreaterThan(0);
    expect(view.x).toBeLessThan(first.x);
    expect(view.x + 1000 / READABLE).toBeGreaterThan(first.x + first.width);
  });

  it("is shown whole where that is readable, or where it is far too large", () => {
    for (const size of [
      { width: 800, height: 600 },
      { width: 20_000, height: 9000 },
    ])
      expect(beginning(size, first, 1000, 700)).toEqual(whole(size, 1000, 700));
  });
});
