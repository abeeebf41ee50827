import type { Value } from "./far";

type Span = Pick<Value, "from" | "until">;

/** Segments of more boxes than this are cut even where several values cross: at every such place if they are at most so many. */
const [MANY, FEW] = [32, 4];

/**
 * Cuts a list of items where one value crosses from those before to those after, between the layers of a
 * network. What is between two cuts is laid out by itself.
 *
 * @param spans The values, without those from afar.
 * @param boxes How many boxes are in items.
 * @returns The first item of each segment.
 */
export function cut(items: number, spans: readonly Span[], boxes: (first: number, end: number) => number): number[] {
  const starts = [0];
  const divide = (first: number, end: number): void => {
    if (end - first < 2) return;
    const crossing = crossings(first, end, spans);
    const least = Math.min(...crossing);
    let at = crossing.flatMap((count, index) => (count <= 1 ? [first + index + 1] : []));
    if (at.length === 0 && boxes(first, end) > MANY) {
      const fewest = crossing.flatMap((count, index) => (count === least ? [first + index + 1] : []));
      at = least <= FEW ? fewest : [nearMiddle(crossing, least) + first + 1];
    }
    if (at.length === 0) return;
    const bounds = [first, ...at, end];
    at.forEach((place, index) => {
      divide(bounds[index] ?? first, place);
      starts.push(place);
    });
    divide(at.at(-1) ?? first, end);
  };
  divide(0, items);
  return [...new Set(starts)].sort((a, b) => a - b);
}

/** How many values cross each place between two items of a part, without those that pass the whole part. */
function crossings(first: number, end: number, spans: readonly Span[]): number[] {
  const changes = new Int32Array(end - first + 1);
  for (const { from, until } of spans) {
    if (until <= first || from >= end - 1 || (from < first && until >= end)) continue;
    const [begin, stop] = [Math.max(from + 1, first + 1), Math.min(until, end - 1)];
    if (begin > stop) continue;
    changes[begin - first] = (changes[begin - first] ?? 0) + 1;
    changes[stop + 1 - first] = (changes[stop + 1 - first] ?? 0) - 1;
  }
  let open = 0;
  return Array.from(changes.subarray(1, end - first), (change) => (open += change));
}

/** Of the places with the fewest crossings, that nearest to the middle. */
function nearMiddle(crossing: readonly number[], least: number): number {
  const middle = (crossing.length - 1) / 2;
  let best = 0;
  crossing.forEach((count, index) => {
    const isNearer = Math.abs(index - middle) < Math.abs(best - middle);
    if (count === least && (crossing[best] !== least || isNearer)) best = index;
  });
  return best;
}
