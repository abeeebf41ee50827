/** The JSON of a comparison, as `Comparison.to_json` in Python writes it. Seconds, ratios and counts, never formatted. */
import type { Origin, Unit } from "./profile";

export type Verdict = "slower" | "faster" | "no change" | "unclear";

export interface Change {
  before: number | null;
  after: number | null;
  ratio: number | null;
  low: number | null;
  high: number | null;
  verdict: Verdict;
  origin: Origin;
}

export interface Subject {
  label: string;
  path: string;
  facts: Record<string, string>;
}

export interface KindChange {
  label: string;
  before: number;
  after: number;
  time: Change;
}

export interface RowChange {
  label: string;
  name: string;
  before: string[];
  after: string[];
  presence: "both" | "added" | "removed";
  time: Change;
}

export interface OpPlacement {
  type: string;
  name: string;
  before: string;
  after: string;
  unit_before: Unit | null;
  unit_after: Unit | null;
  planned: Change;
}

export interface PlacementChange {
  before: string;
  after: string;
  latency: Change | null;
  planned: Change;
  switches: [number, number];
  units: Partial<Record<Unit, [number, number]>>;
  types: { type: string; before: number; after: number; planned: Change }[];
  ops: OpPlacement[];
  moved: number;
}

export interface Difference {
  base: number;
  other: number;
  in_turns: boolean;
  incomparable: string;
  phases: Record<string, Change>;
  kinds: KindChange[];
  rows: RowChange[];
  matched: number;
  renamed: number;
  added: string[];
  removed: string[];
  placements: PlacementChange[];
}

export interface Comparison {
  schema: "coremlscope.comparison/1";
  subjects: Subject[];
  differences: Difference[];
  /** The names of the facts in which the subjects differ. */
  differing: string[];
}

/** `+5.0 %`, `−27.3 %`, `×3.2` for a ratio of two or more, as in `difference.py`. */
export function ratioText(ratio: number | null): string {
  if (ratio === null) return "–";
  if (ratio >= 2) return `×${Number(ratio.toPrecision(3))}`;
  const percent = (Math.abs(ratio - 1) * 100).toFixed(1);
  return `${percent === "0.0" ? "±" : ratio > 1 ? "+" : "−"}${percent} %`;
}
