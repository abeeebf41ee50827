import type { Change } from "./schema";

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
