import { describe, expect, it } from "vitest";
import { openedBy, profileNames, timeColumns } from "../../src/data/overview";
import type { Profile } from "../../src/data/schema";
import { estimate, goldenProfile, measurement, phase, plan } from "../fixtures";

const profile = (changes: Partial<Profile> = {}, path = "a.mlmodel"): Profile => ({
  ...goldenProfile(),
  model: { ...goldenProfile().model, path },
  measurements: [],
  plans: [],
  estimates: [],
  ...changes,
});

describe("timeColumns", () => {
  it("has a column for each measurement, and for each device and setting", () => {
    const columns = timeColumns([
      profile({ measurements: [measurement("host", { predict: phase(1) })] }),
      profile({ measurements: [measurement("other", { predict: phase(2) })], estimates: [estimate()] }),
      profile({ estimates: [estimate({ compute_units: "cpu_only" })] }),
    ]);
    expect(columns.map(({ origin, title, setting, seconds }) => [origin, title, setting, seconds])).toEqual([
      ["measured", "host", "", [1, null, null]],
      ["measured", "other", "", [null, 2, null]],
      ["estimated", "M9, macOS 99", "All", [null, 1, null]],
      ["estimated", "M9, macOS 99", "CPU only", [null, null, 1]],
    ]);
  });

  it("keeps the intervals of estimates", () => {
    const [measured, estimated] = timeColumns([
      profile({ measurements: [measurement("host", { predict: phase(1) })] }),
      profile({ estimates: [estimate({ basis: "extrapolated" })] }),
    ]);
    const { latency } = estimate();
    expect(measured?.estimates).toEqual([null, null]);
    expect(estimated?.estimates).toEqual([null, { latency, isExtrapolated: true, faster: null }]);
  });

  it("has the fastest other setting of a device next to the first", () => {
    const of = (setting: "all" | "cpu_and_ne" | "cpu_only", value: number) =>
      estimate({ compute_units: setting, latency: { value, low: value, high: value, origin: "estimated" } });
    const found = timeColumns([profile({ estimates: [of("all", 2), of("cpu_and_ne", 3), of("cpu_only", 1)] })]);
    expect(found.map(({ setting, seconds, estimates }) => [setting, seconds, estimates[0]?.faster?.compute_units])).toEqual([
      ["All", [2], "cpu_only"],
    ]);
  });

  it("has none for planned costs, which are no times", () => {
    expect(timeColumns([profile({ plans: [plan(1)] })])).toEqual([]);
  });

  it("is empty where nothing was timed", () => {
    expect(timeColumns([profile(), profile({ measurements: [measurement("host", { predict: null })] })])).toEqual([]);
  });
});

describe("profileNames", () => {
  const names = (paths: readonly string[]) => profileNames(paths.map((path) => profile({}, path)));

  it("gives file names where these tell models apart", () => {
    expect(names(["x/a.mlmodel", "y\\b.mlmodel", ""])).toEqual(["a.mlmodel", "b.mlmodel", "model"]);
  });

  it("gives as much of the paths as is needed", () => {
    expect(names(["/z/x/a.mlmodel", "/z/y/a.mlmodel"])).toEqual(["x/a.mlmodel", "y/a.mlmodel"]);
    expect(names(["/z/a.mlmodel", "/z/a.mlmodel"])).toEqual(["a.mlmodel", "a.mlmodel"]);
  });
});

describe("openedBy", () => {
  it.each([
    ["", null],
    ["#profiles", null],
    ["#profile-12", 12],
    ["#layers", undefined],
    ["#profile-x", undefined],
  ])("%j opens %s", (hash, index) => expect(openedBy(hash)).toBe(index));
});
