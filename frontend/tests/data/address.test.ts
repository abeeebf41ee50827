import { describe, expect, it } from "vitest";
import { readAddress, TABLE, writeAddress } from "../../src/data/address";
import { NO_FILTER } from "../../src/data/filter";
import { targetsOf } from "../../src/data/profile";
import { first, plan, settingPlan } from "../fixtures";

const settings = [settingPlan({ backend: [0] }), settingPlan({ compute_units: "cpu_only", backend: [2] })];
const targets = targetsOf({ plans: [plan(1, { device: "M8", settings }), plan(1, { device: "M9", settings })], estimates: [] });
const isKnown = (id: string) => id === "main/0";

describe("addresses", () => {
  it("carry nothing for the report as it opens", () => {
    const opened = readAddress("", targets, isKnown);
    expect(opened).toEqual({ target: first(targets), setting: "all", selected: null, filter: NO_FILTER, layers: TABLE });
    expect(writeAddress(opened, targets)).toBe("");
  });

  it("carry device, setting, operation and filters, and are read as they are written", () => {
    const chosen = {
      target: targets[1] ?? null,
      setting: "cpu_only" as const,
      selected: "main/0",
      filter: { ...NO_FILTER, unit: "cpu" as const, text: "a&b =" },
      layers: { view: "flame", by: "kernel", measure: "flops" } as const,
    };
    const query = writeAddress(chosen, targets);
    expect(query).toContain("op=main%2F0");
    expect(readAddress(query, targets, isKnown)).toEqual(chosen);
  });

  it("leave out what the report does not have", () => {
    const read = readAddress("?device=M1&units=nothing&op=main/7&layers=pie&by=colour", targets, isKnown);
    expect([read.target, read.setting, read.selected]).toEqual([first(targets), "all", null]);
    expect(read.layers).toEqual(TABLE);
    expect(readAddress("?device=M1", [], isKnown).target).toBeNull();
  });
});
