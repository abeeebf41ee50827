import type { Span } from "../../data/lanes";

/** The visible time range. */
export interface Range {
  start: number;
  seconds: number;
}

/** Zooms about a time; less than one shows less. */
export const scaled = (view: Range, factor: number, at: number): Range => ({
  start: at - (at - view.start) * factor,
  seconds: view.seconds * factor,
});

/** The range within the whole. */
export function clamp(view: Range, most: number): Range {
  const seconds = Math.min(Math.max(view.seconds, most / 20000), most);
  return { seconds, start: Math.min(Math.max(view.start, 0), most - seconds) };
}

/** The span at a time, or the one before it if it ended within `reach`. */
export function spanIn(spans: readonly Span[], time: number, reach: number): Span | null {
  let [low, high] = [0, spans.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((spans[middle]?.start ?? 0) <= time) low = middle + 1;
    else high = middle;
  }
  const span = spans[low - 1];
  return span && time <= span.start + span.seconds + reach ? span : null;
}
