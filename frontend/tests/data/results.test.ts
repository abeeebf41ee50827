import { describe, expect, it } from "vitest";
import { EVERYTHING, firstColumns, firstSort, matching, reportOf, rowName, shownNumber, shownText, sorted } from "../../src/data/results";
import type { ColumnQuantity, ResultColumn, ResultTable } from "../../src/data/schema";

const column = (name: string, quantity: ColumnQuantity, values: (string | number | null)[]): ResultColumn => ({
  ...{ name, quantity, values },
  meaning: "",
  origin: null,
});

const TABLE: ResultTable = {
  rows: 4,
  columns: [
    column("origin", "text", ["estimated", "estimated", "estimated", "measured"]),
    column("model", "text", ["zoo/a/net.mlpackage", "zoo/b/net.mlpackage", "zoo/a/net.mlpackage", "zoo/a/net.mlpackage"]),
    column("device", "text", ["M1", "M1", "M4", "AMD EPYC"]),
    column("estimated_s", "seconds", [0.002, 0.001, 0.0015, null]),
    column("numbers.accuracy", "number", [70, 60, 70, 70]),
    column("report", "text", ["a.html", "javascript:alert(1)", "https://example.com/a", "data:text/html,x"]),
  ],
};

const wanted = (text: string, chosen = {}) => matching(TABLE, { text, chosen });

describe("results of sweeps", () => {
  it("keeps rows that have every word and the chosen values", () => {
    expect(matching(TABLE, EVERYTHING)).toEqual([0, 1, 2, 3]);
    expect(wanted("A/NET m")).toEqual([0, 2, 3]);
    expect(wanted("", { device: "M1" })).toEqual([0, 1]);
    expect(wanted("a/net", { device: "M1" })).toEqual([0]);
  });

  it("sorts with unknown values last in both directions", () => {
    const rows = [0, 1, 2, 3];
    expect(sorted(TABLE, rows, { name: "estimated_s", descending: false })).toEqual([1, 2, 0, 3]);
    expect(sorted(TABLE, rows, { name: "estimated_s", descending: true })).toEqual([0, 2, 1, 3]);
    expect(sorted(TABLE, rows, { name: "device", descending: false })).toEqual([3, 0, 1, 2]);
  });

  it("begins with the time", () => {
    expect(firstSort(TABLE)).toEqual({ name: "estimated_s", descending: false });
  });

  it("shows the columns that matter", () => {
    expect(firstColumns(TABLE)).toEqual(["model", "device", "estimated_s", "numbers.accuracy"]);
  });

  it("names rows by what tells them apart", () => {
    expect(rowName(TABLE, 1)).toBe("b/net.mlpackage, M1");
    expect(rowName(TABLE, 2, ["device"])).toBe("a/net.mlpackage");
    expect(shownText(column("compute_units", "text", ["cpu_and_ne"]), 0)).toBe("CPU + NE");
  });

  it("shows numbers in the unit of their column", () => {
    expect(shownNumber(column("estimated_s", "seconds", []), 0.00123)).toBe("1.23 ms");
    expect(shownNumber(column("ms", "milliseconds", []), 1500)).toBe("1.50 s");
    expect(shownNumber(column("size_bytes", "bytes", []), 1234)).toBe("1.23 kB");
    expect(shownNumber(column("accuracy", "number", []), 71.25)).toBe("71.25");
  });

  it("links only files and web pages", () => {
    expect([0, 1, 2, 3].map((row) => reportOf(TABLE, row))).toEqual(["a.html", null, "https://example.com/a", null]);
  });
});
