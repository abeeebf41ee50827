import { describe, expect, it } from "vitest";
import { openedBy, profileNames, timeColumns } from "../../src/data/overview";
import type { Profile } from "../../src/data/schema";
import { estimate, goldenProfile, measurement, phase, plan, settingPlan } from "../fixtures";

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
    const { low, high } = estimate().latency;
    expect(measured?.intervals).toEqual([null, null]);
    expect(estimated?.intervals).toEqual([null, { low, high, isExtrapolated: true }]);
  });

  it("shows planned costs of devices without estimates only", () => {
    const planned = plan(1, { settings: [settingPlan({ backend: [0] }, 5)] });
    expect(timeColumns([profile({ plans: [planned] })]).map(({ origin, seconds }) => [origin, seconds])).toEqual([["planned", [5e-3]]]);
    const both = timeColumns([profile({ plans: [planned] }), profile({ plans: [planned], estimates: [estimate()] })]);
    expect(both.map(({ origin, seconds }) => [origin, seconds])).toEqual([["estimated", [null, 1]]]);
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
