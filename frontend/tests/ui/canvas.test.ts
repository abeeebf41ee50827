import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { COLOURS } from "../../src/ui/canvas";

it("draws with colours that the style sheet defines", () => {
  const sheet = readFileSync(new URL("../../src/styles/base.css", import.meta.url), "utf8");
  expect(COLOURS.filter((name) => !sheet.includes(`--${name}: light-dark(`))).toEqual([]);
});
