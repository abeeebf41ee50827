/** A value at a level, by the leaf that makes it; items that read it, with the edges to them. */
export interface Value {
  leaf: number;
  /** -1 where it comes from outside. */
  from: number;
  /** The last item that reads it; the number of items where it is also read outside. */
  until: number;
  readers: Map<number, number[]>;
}

/** Values that pass more items or boxes than this are far; of these, so many have lines beside each other. */
const [NEAR_ITEMS, NEAR_BOXES, LANES] = [10, 40, 3];

/** Whether a reader is far from where a value is made. */
const isFarReader = (value: Value, reader: number, edges: readonly Edge[]): boolean =>
  reader - value.from > NEAR_ITEMS || edges.some(([from, to]) => to - from > NEAR_BOXES);

type Edge = readonly [from: number, to: number];

/**
 * Chooses the values that have lines. Masks and states that many layers read, or caches that all layers write, would be bundles
 * of lines along the whole graph; their far readers name them instead.
 */
export function route(values: readonly Value[], items: number, edgeOf: (index: number) => Edge): Routes {
  const [near, long]: [Value[], Value[]] = [[], []];
  const isFar = (value: Value, reader: number, edges: readonly number[]) => isFarReader(value, reader, edges.map(edgeOf));
  for (const value of values) ([...value.readers].some(([reader, edges]) => isFar(value, reader, edges)) ? long : near).push(value);
  const found: Routes = { values: near, long: new Set(), far: [] };
  const lanes = new Uint8Array(items + 1);
  for (const value of long.sort((a, b) => a.until - a.from - (b.until - b.from))) {
    const way = lanes.subarray(value.from + 1, value.until + 1);
    if (way.every((count) => count < LANES)) {
      way.forEach((count, index) => {
        way[index] = count + 1;
      });
      found.values.push(value);
      found.long.add(value);
      continue;
    }
    const readers = new Map<number, number[]>();
    for (const [reader, edges] of value.readers) {
      if (isFar(value, reader, edges)) found.far.push(...edges);
      else readers.set(reader, edges);
    }
    if (readers.size > 0) found.values.push({ ...value, until: Math.max(...readers.keys()), readers });
  }
  return found;
}

interface Routes {
  values: Value[];
  /** Those of the values that are far. */
  long: Set<Value>;
  /** The edges without lines. */
  far: number[];
}
