import { expect, test } from "vitest";
import { aroundOf, cachesOf, likeness, perSecond, shareOf, termsOf } from "../../src/data/estimate";
import type { Figure, NearRow, TokenRate, UnitTerms } from "../../src/data/schema";
import { estimate } from "../fixtures";

const figure = (value: number, low: number, high: number): Figure => ({ value, low, high, origin: "estimated" });
const unit = (changes: Partial<UnitTerms>): UnitTerms => ({
  unit: "neural_engine",
  compute_s: 0,
  weights_s: 0,
  activations_s: 0,
  operations_s: 0,
  launch_s: 0,
  ...changes,
});

test("terms add up to the estimate", () => {
  const found = estimate({
    latency: figure(0.01, 0.008, 0.012),
    terms: [unit({ compute_s: 0.004, launch_s: 0.001 }), unit({ unit: "cpu", weights_s: 0.002 })],
    parts: { compute: 0.004, weights: 0.002, dispatch: 0.0025, switches: 0.0015 },
    switches: 2,
  });
  const terms = termsOf(found);
  expect(terms.map((term) => term.name)).toEqual([
    "Neural Engine: launch",
    "Neural Engine: arithmetic",
    "CPU: weights",
    "changes of the unit",
    "conversion",
  ]);
  expect(terms.reduce((sum, term) => sum + term.seconds, 0)).toBeCloseTo(0.01);
  expect(terms[3]?.meaning).toBe("2 in a prediction");
  expect(shareOf(terms[1] as (typeof terms)[number], found)).toBe("40.0 %");
  expect(termsOf(estimate({ terms: [] }))).toEqual([]);
});

test("loading is known or not", () => {
  expect(aroundOf(estimate({ load: null, memory: null }))).toEqual([["Loading", "not known: no two publications of comparable models"]]);
  const load = { first_s: figure(12, 3, 50), cached_s: figure(0.3, 0.1, 0.9), publications: 10 };
  const [first, later] = aroundOf(estimate({ load, memory: null }));
  expect(first?.[1]).toContain("12.0 s (80 % within 3.00 s – 50.0 s)");
  expect(first?.[1]).toContain("10 publications");
  expect(later).toEqual(["Later loads", "300 ms (80 % within 100 ms – 900 ms): from Core ML's cache"]);
});

test("published networks are the same, alike or unlike", () => {
  const row = (distance: number) => likeness({ distance } as NearRow);
  expect([row(0.02), row(0.3), row(0.8)]).toEqual(["same (0.02)", "alike (0.30)", "unlike (0.80)"]);
});

test("rates have three digits, and each cache is named once", () => {
  expect([1.234, 56.78, 99.94, 1234.5].map(perSecond)).toEqual(["1.23", "56.8", "99.9", "1235"]);
  const rate = (context: number) => ({ context, cache_bytes: context * 1000 }) as TokenRate;
  expect(cachesOf([rate(128), rate(128), rate(512)])).toBe("128 tokens in 128 kB; 512 tokens in 512 kB");
});
