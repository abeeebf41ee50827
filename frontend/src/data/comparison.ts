import type { Change, Comparison, Difference, Origin } from "./schema";
import { settingName } from "./words";

/** The label of a subject, with the setting as in the rest of the page: `M1, CPU + NE` for `M1, cpu_and_ne`. */
export const subjectTitle = (label: string): string => label.replace(/(?<=, )(all|cpu_\w+)$/, settingName);

/** The change of a whole prediction. */
export interface PredictionChange {
  /** Begins with the index of the subject. */
  key: string;
  label: string;
  /** Of plans that both are for; empty where the label names it. */
  device: string;
  origin: Origin;
  change: Change;
}

/** Predictions of all other subjects: measured, and on each device estimated or else planned. */
export function predictionChanges({ subjects, differences }: Comparison): PredictionChange[] {
  return differences.flatMap((difference) => {
    const { other, phases, plans, incomparable } = difference;
    const label = subjects[other]?.label ?? "";
    const found: PredictionChange[] = plans.map((plan, index) => ({
      ...{ key: `${other}|${index}`, label, device: plan.before === plan.after ? subjectTitle(plan.after) : "" },
      origin: plan.latency ? "estimated" : "planned",
      change: plan.latency ?? plan.planned,
    }));
    if (phases.predict && !incomparable) found.unshift({ key: `${other}|`, label, device: "", origin: "measured", change: phases.predict });
    return found;
  });
}

/** Names of operations by their ids, as far as rows of a difference name them. */
export function namesIn(difference: Difference): Map<string, string> {
  const names = new Map<string, string>();
  for (const row of difference.rows) for (const id of [row.before[0], row.after[0]]) if (id && row.name) names.set(id, row.name);
  for (const plan of difference.plans)
    for (const op of plan.ops) for (const id of [op.before, op.after]) if (id && op.name) names.set(id, op.name);
  return names;
}

/** `+5.0 %`, `−27.3 %`, `×3.2` for a ratio of two or more, as in `difference.py`. */
export function ratioText(ratio: number | null): string {
  if (ratio === null) return "–";
  if (ratio >= 2) return `×${Number(ratio.toPrecision(3))}`;
  const percent = (Math.abs(ratio - 1) * 100).toFixed(1);
  return `${percent === "0.0" ? "±" : ratio > 1 ? "+" : "−"}${percent} %`;
}

/** Logarithms of the ratios that the track of a table's intervals reaches at least and at most: twice, a hundred times. */
const REACH = { least: Math.log(2), most: Math.log(100) };
/** The least length of an interval, in percent of its track. */
const THINNEST = 2;

/** How far the track of a table's intervals reaches to both sides of no change, as the logarithm of the ratio. */
export function intervalReach(changes: readonly Pick<Change, "low" | "high">[]): number {
  const ends = changes.flatMap(({ low, high }) => (low === null || high === null || low === high ? [] : [low, high]));
  const widest = Math.max(REACH.least, ...ends.map((ratio) => Math.abs(Math.log(Math.max(ratio, Number.MIN_VALUE)))));
  return Math.min(widest, REACH.most);
}

/** The ends of an interval of ratios in percent of its track; what lies beyond the track is drawn at its end. */
export function placeInterval(low: number, high: number, reach: number): [number, number] {
  const place = (ratio: number) => 50 + 50 * Math.max(-1, Math.min(1, Math.log(Math.max(ratio, Number.MIN_VALUE)) / reach));
  const left = Math.min(place(low), 100 - THINNEST);
  return [left, Math.max(place(high), left + THINNEST)];
}
