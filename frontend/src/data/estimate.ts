import { bytes, duration, share } from "../format";
import type { Estimate, Figure, NearRow, TokenRate, UnitTerms } from "./schema";
import { UNIT_NAMES } from "./words";

/** A term of an estimate. */
export interface Term {
  name: string;
  seconds: number;
  /** What it is. */
  meaning: string;
}

/** The terms of a unit in the order in which they are listed, as in `explanation.py`. */
const MEANINGS: readonly [Exclude<keyof UnitTerms, "unit">, string, string][] = [
  ["launch_s", "launch", "fixed cost of using the unit in a prediction"],
  ["compute_s", "arithmetic", "kernels that wait for it"],
  ["weights_s", "weights", "kernels that wait for them to be read from memory"],
  ["activations_s", "activations", "kernels that wait for inputs and results"],
  ["operations_s", "operations", "starting each kernel, and functions at the end of some"],
];

/** What the estimate is made of; the terms add up to it. Empty for older profiles. */
export function termsOf(estimate: Estimate): Term[] {
  const ofUnits = estimate.terms.flatMap((unit) =>
    MEANINGS.map(([key, title, meaning]) => ({ name: `${UNIT_NAMES[unit.unit]}: ${title}`, seconds: unit[key], meaning })),
  );
  if (ofUnits.length === 0) return [];
  const switches = estimate.parts.switches ?? 0;
  const listed = ofUnits.reduce((sum, term) => sum + term.seconds, switches);
  const rest = estimate.latency.value - listed;
  return [
    ...ofUnits,
    { name: "changes of the unit", seconds: switches, meaning: `${estimate.switches} in a prediction` },
    {
      name: "conversion",
      seconds: rest > estimate.latency.value * 1e-6 ? rest : 0,
      meaning: "inputs and outputs to and from half precision",
    },
  ].filter((term) => term.seconds > 0);
}

const LOADS_UNKNOWN = "not known: no two publications of comparable models";

/** Loading and memory: a name and a text each. */
export function aroundOf(estimate: Estimate): [string, string][] {
  const { load, memory } = estimate;
  const found: [string, string][] = load
    ? [
        [
          "First load",
          `${within(load.first_s)}: compiles for the Neural Engine, by ${load.publications} publications and the number of parameters`,
        ],
        ["Later loads", `${within(load.cached_s)}: from Core ML's cache`],
      ]
    : [["Loading", LOADS_UNKNOWN]];
  if (memory?.peak)
    found.push([
      "Peak memory",
      `${bytes(memory.peak.value)} (bounds ${bytes(memory.peak.low)} – ${bytes(memory.peak.high)}), from the file`,
    ]);
  return found;
}

const within = (figure: Figure): string => `${duration(figure.value)} (80 % within ${duration(figure.low)} – ${duration(figure.high)})`;

/** How like a published network is, as in `explanation.py`. */
export function likeness(row: NearRow): string {
  const word = row.distance <= 0.05 ? "same" : row.distance <= 0.5 ? "alike" : "unlike";
  return `${word} (${row.distance.toFixed(2)})`;
}

/** Tokens per second with three digits, as in `generation.py`. */
export const perSecond = (rate: number): string => (rate >= 100 ? rate.toFixed(0) : `${Number(rate.toPrecision(3))}`);

/** What a cache holds: `128 tokens in 4.19 MB`; of several caches, each once. */
export function cachesOf(rates: readonly Pick<TokenRate, "context" | "cache_bytes">[]): string {
  return [...new Set(rates.map((rate) => `${rate.context} tokens in ${bytes(rate.cache_bytes)}`))].join("; ");
}

/** The share of a term, as text. */
export const shareOf = (term: Term, estimate: Estimate): string => share(term.seconds / estimate.latency.value);
