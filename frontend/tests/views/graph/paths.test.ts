import { describe, expect, it } from "vitest";
import { beginning, READABLE, whole } from "../../../src/views/graph/paths";

const first = { x: 900, y: 40, width: 160, height: 40 };

describe("a drawing", () => {
  it("opens at its first box, with texts of their own size", () => {
    const view = beginning({ width: 2000, height: 1600 }, first, 1000, 700);
    expect(view.scale).toBe(READABLE);
    expect(view.y).toBe(0);
    expect(view.x).toBeGreaterThan(0);
    expect(view.x).toBeLessThan(first.x);
    expect(view.x + 1000 / READABLE).toBeGreaterThan(first.x + first.width);
  });

  it("is in the middle where all of it is in view", () => {
    const size = { width: 800, height: 600 };
    expect(beginning(size, first, 1000, 700)).toEqual(whole(size, 1000, 700));
  });
});
