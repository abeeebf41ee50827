import { describe, expect, it } from "vitest";
import { bestOf } from "../../src/data/frontier";

describe("the frontier", () => {
  it("holds those that no other beats", () => {
    expect(bestOf([3, 1, 2, 2, 5], [9, 4, 3, 7, 9])).toEqual(new Set([1, 3, 0]));
  });

  it("takes one of equal ones, and negative qualities", () => {
    expect(bestOf([1, 1, 2], [-5, -5, -7])).toEqual(new Set([0]));
    expect(bestOf([], [])).toEqual(new Set());
  });
});
