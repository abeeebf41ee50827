import { expect, it } from "vitest";
import { measuredCosts } from "../../src/data/critical";
import { buildRows } from "../../src/data/rows";
import { sumOf } from "../../src/data/selection";
import { group, opTable, times } from "../fixtures";

const table = opTable(["main/0", "main/1", "main/2", "main/3"], { flops: [1, 20, null, 4000] });
const groups = [group("a + b", [0, 1], 2), group("c", [2], 3), group("d", [3], 5)];
const rows = buildRows(table, times(4, groups), null);
const costs = measuredCosts(rows, groups);

it("counts the time of a group once, as a whole", () => {
  expect(sumOf(rows.ops.slice(0, 2), table, costs)).toEqual({ ops: 2, seconds: 2, groups: 1, flops: 21, bytes: 12, isComplete: true });
  expect(sumOf(rows.ops.slice(1, 2), table, costs)).toMatchObject({ seconds: 2, groups: 1 });
  expect(sumOf(rows.ops, table, costs)).toMatchObject({ ops: 4, seconds: 10, groups: 3, flops: 4021, isComplete: false });
});

it("has no time where none is known", () => expect(sumOf(rows.ops, table, null).seconds).toBeNull());
