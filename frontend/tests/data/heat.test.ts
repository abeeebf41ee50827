import { describe, expect, it } from "vitest";
import { heatLines } from "../../src/data/heat";
import type { ResultColumn, ResultTable } from "../../src/data/schema";

const text = (name: string, values: (string | null)[]): ResultColumn => ({
  ...{ name, values },
  quantity: "text",
  meaning: "",
  origin: null,
});
const SECONDS: ResultColumn = {
  ...{ name: "estimated_s", quantity: "seconds", origin: "estimated", meaning: "" },
  values: [0.001, 0.01, 0.1, null, 0.0001],
};
const TABLE: ResultTable = {
  rows: 5,
  columns: [
    text("model", ["a", "b", "a", "b", "a"]),
    text("device", ["M1", "M1", "M4", "M4", "M1"]),
    text("made_at", ["2026-01-02", "2026-01-02", "2026-01-02", "2026-01-02", "2026-01-01"]),
    SECONDS,
  ],
};

describe("the heat map", () => {
  it("has the newest number of each model on each device", () => {
    const [places, lines] = heatLines(TABLE, [0, 1, 2, 3, 4], SECONDS, false);
    expect(places).toEqual(["M1", "M4"]);
    expect(lines.map((line) => [line.name, ...line.cells.map((cell) => cell?.value ?? null)])).toEqual([
      ["a", 0.001, 0.1],
      ["b", 0.01, null],
    ]);
    expect(lines[0]?.cells[0]).toMatchObject({ row: 0, count: 2 });
  });

  it("is warm by logarithm, among all or among those of each model", () => {
    const heats = (isByModel: boolean) =>
      heatLines(TABLE, [0, 1, 2, 3], SECONDS, isByModel)[1].map((line) => line.cells.map((cell) => cell && Number(cell.heat.toFixed(6))));
    expect(heats(false)).toEqual([
      [0, 1],
      [0.5, null],
    ]);
    expect(heats(true)).toEqual([
      [0, 1],
      [0, null],
    ]);
  });
});
