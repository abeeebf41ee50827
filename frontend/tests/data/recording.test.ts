import { expect, test } from "vitest";
import { busyPerPrediction, energyLine, energyRows, recordingLines, whose } from "../../src/data/recording";
import type { Energy, Recording, UnitActivity } from "../../src/data/schema";

const activity = (changes: Partial<UnitActivity> = {}): UnitActivity => ({
  unit: "gpu",
  table: "metal-gpu-intervals",
  scope: "processes",
  intervals: 4,
  busy_s: 0.008,
  first_s: 0,
  last_s: 1,
  durations: null,
  labels: [],
  processes: [],
  per_prediction: null,
  intervals_per_prediction: null,
  ...changes,
});

const recording = (changes: Partial<Recording> = {}): Recording => ({
  tool: "Instruments 27.0",
  template: "Core ML",
  target: "",
  duration_s: 15,
  predictions: null,
  are_delimited: false,
  tables: {},
  units: [activity()],
  samples: [],
  total_samples: 0,
  origin: "measured",
  ...changes,
});

test("a mean is marked where predictions are not delimited", () => {
  const statistics = { count: 2, min: 1, median: 0.003, mean: 1, p95: 1, p99: 1, max: 1, std: 0 };
  expect(busyPerPrediction(recording(), activity())).toBe("–");
  expect(busyPerPrediction(recording({ predictions: 4 }), activity())).toBe("⌀ 2.00 ms");
  expect(busyPerPrediction(recording({ predictions: 4 }), activity({ per_prediction: statistics }))).toBe("3.00 ms");
});

test("whose work intervals are", () => {
  const processes = ["a (1)", "b (2)", "c (3)", "d (4)"].map((name) => ({ name, intervals: 1, busy_s: 1 }));
  expect(whose(recording(), activity({ scope: "device" }))).toBe("the whole device");
  expect(whose(recording(), activity({ processes }))).toBe("a (1), b (2), c (3) and 1 more");
  expect(whose(recording({ target: "d (4)" }), activity({ processes }))).toBe("d (4)");
});

test("no table is not the same as no rows", () => {
  const lines = recordingLines(recording({ tables: { "ane-hw-intervals": null, "coreml-os-signpost": 0, "mps-hw-intervals": 3 } }));
  expect(lines).toEqual(["Instruments 27.0, template Core ML, 15.0 s", "ane-hw-intervals: no such table; coreml-os-signpost: no rows"]);
});

test("samples of call stacks", () => {
  const samples = [{ unit: "neural_engine" as const, samples: 1, frames: [] }];
  expect(recordingLines(recording({ samples, total_samples: 4 }))[1]).toBe(
    "of 4 stack samples in software of a unit: Neural Engine 25.0 %",
  );
});

test("energy has a power, and is divided by known predictions only", () => {
  const energy: Energy = {
    tool: "macmon",
    window_s: 2,
    samples: 3,
    units: [{ unit: "neural_engine", power_w: 0.25, energy_j: 0.5 }],
    predictions: null,
    thermal: ["Nominal", "Moderate"],
    origin: "estimated",
  };
  expect(energyRows(energy)).toEqual([{ name: "Neural Engine", energy: "500 mJ", power: "250 mW", perPrediction: "–" }]);
  expect(energyRows({ ...energy, predictions: 100 })[0]?.perPrediction).toBe("5.00 mJ");
  expect(energyLine(energy)).toBe("macmon, 3 readings over 2.00 s, of the whole system, thermal pressure Nominal → Moderate");
});
