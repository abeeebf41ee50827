import { expect, it } from "vitest";
import { toCsv } from "../../src/data/csv";

it("quotes what separates cells, and keeps numbers", () => {
  expect(toCsv([["a,b", 'say "x"', "two\nlines", -1.5, null, undefined, ""]])).toBe('"a,b","say ""x""","two\nlines",-1.5,,,\r\n');
});

it("keeps spreadsheets from taking text for a formula", () => {
  expect(toCsv([["=1+1", "@x", "-2 + 3", "a;=1", " +x", "plain"]])).toBe("'=1+1,'@x,'-2 + 3,a;'=1,' +x,plain\r\n");
});
