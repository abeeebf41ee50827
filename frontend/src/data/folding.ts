import { modulePaths } from "./modules";
import type { Row } from "./rows";

/** Operations that the graph can show as one part: a scope of the author's names, or a repeated block. */
export interface Fold {
  id: string;
  title: string;
  /** The operations in it, in the program's order. */
  rows: Row[];
  parts: Part[];
}

export type Part = Fold | Row;

export const isFold = (part: Part): part is Fold => "parts" in part;

/** Whether a fold is only a piece of a long list. */
export const isPiece = (fold: Fold): boolean => /(^|:)piece@[^:]*$/.test(fold.id);

/** The longest repeated block searched for, and the fewest operations in a fold. */
const [LONGEST, FEWEST] = [160, 3];
/** Lists of more parts than this are also searched for repeated blocks, and then cut into pieces of about so many. */
const [MANY, PIECE] = [24, 12];
/** The part of operations outside folds below which shorter lists are cut as well. */
const LOOSE = 0.2;

/**
 * Folds a list of operations by modules, by repeated blocks of types, and else into pieces, so that no list has
 * many parts. Blocks and pieces begin where few values cross: between the layers of a network.
 */
export function fold(
  rows: readonly Row[],
  inputsOf: (row: Row) => Row[] = () => [],
  modules: ReadonlyMap<Row, readonly string[]> = modulePaths(rows, () => []),
): Part[] {
  const scopes = (row: Row): string[] => [...(modules.get(row) ?? []), row.id];
  const parts = rows.some((row) => modules.get(row)?.length) ? byScope(rows, 0, "", scopes) : rows;
  return short(parts, "", crossings(rows, inputsOf));
}

/** How many values are made before an operation and read by it or later. */
type Crossings = ReadonlyMap<Row, number>;

function crossings(rows: readonly Row[], inputsOf: (row: Row) => Row[]): Crossings {
  const lastReader = new Map<Row, Row>();
  for (const row of rows) for (const input of inputsOf(row)) lastReader.set(input, row);
  const ends = new Map<Row, number>();
  for (const reader of lastReader.values()) ends.set(reader, (ends.get(reader) ?? 0) + 1);
  const found = new Map<Row, number>();
  let open = 0;
  for (const row of rows) {
    found.set(row, open);
    open += (lastReader.has(row) ? 1 : 0) - (ends.get(row) ?? 0);
  }
  return found;
}

/** Shortens a list, and the lists in it, by folding. */
function short(parts: readonly Part[], path: string, crossing: Crossings): Part[] {
  const inner = parts.map((part) => (isFold(part) ? { ...part, parts: short(part.parts, `${part.id}:`, crossing) } : part));
  // Where folds hold most operations, the others do not take the space.
  const loose = inner.filter((part) => !isFold(part)).length;
  const most = loose < rowsOf(inner).length * LOOSE ? PIECE : MANY;
  if (inner.length <= most) return inner;
  const repeated = byRepetition(inner, path, crossing);
  if (repeated.length <= most) return repeated;
  const pieces = inPieces(repeated, path, crossing);
  return pieces.length > 1 ? pieces : repeated;
}

/** Every fold, the outer ones first. */
export function folds(parts: readonly Part[]): Fold[] {
  return parts.filter(isFold).flatMap((part) => [part, ...folds(part.parts)]);
}

/** Folds neighbours with the same scope. */
function byScope(rows: readonly Row[], depth: number, path: string, scopes: (row: Row) => string[]): Part[] {
  const parts: Part[] = [];
  for (let start = 0; start < rows.length; ) {
    const first = rows[start];
    if (!first) break;
    const scope = scopes(first)[depth];
    let end = start + 1;
    while (end < rows.length && scopes(rows[end] ?? first)[depth] === scope) end++;
    const run = rows.slice(start, end);
    const isScope = scope !== undefined && run.every((row) => scopes(row).length > depth + 1);
    if (isScope && run.length >= FEWEST) {
      const inner = byScope(run, depth + 1, `${path}/${scope}`, scopes);
      const only = inner.length === 1 ? inner[0] : undefined;
      // A scope that contains only another scope is merged with it.
      if (only && isFold(only)) parts.push({ ...only, title: `${scope}/${only.title}` });
      else parts.push({ id: `${path}/${scope}@${first.id}`, title: scope, rows: run, parts: inner });
    } else parts.push(...run);
    start = end;
  }
  return parts;
}

/** Folds consecutive repetitions of a block, such as the layers of a transformer. */
function byRepetition(all: readonly Part[], path: string, crossing: Crossings): Part[] {
  const runs = runLengths(all.map(signature));
  const parts: Part[] = [];
  for (let start = 0; start < all.length; ) {
    const { period, times, skipped } = bestBlock(runs, start, all, crossing);
    parts.push(...all.slice(start, start + skipped));
    start += skipped;
    const first = all[start];
    if (!first) break;
    if (period * times < 2 * FEWEST || times < 2) {
      parts.push(first);
      start++;
      continue;
    }
    const block = (number: number): Fold => {
      const inner = all.slice(start + number * period, start + (number + 1) * period);
      const id = `${path}${first.id}×${number}`;
      const within = period > 2 * FEWEST ? byRepetition(inner, `${id}:`, crossing) : inner;
      return { id, title: `block ${number + 1} of ${times}`, rows: rowsOf(inner), parts: within };
    };
    const covered = all.slice(start, start + period * times);
    const name = isFold(first) ? first.title : first.type;
    parts.push({
      id: `${path}${first.id}×`,
      title: `${times} × ${period === 1 ? name : "block"}`,
      rows: rowsOf(covered),
      parts: period === 1 ? covered : Array.from({ length: times }, (_, number) => block(number)),
    });
    start += period * times;
  }
  return parts;
}

const rowsOf = (parts: readonly Part[]): Row[] => parts.flatMap((part) => (isFold(part) ? part.rows : [part]));

/** Equal for two parts with the same operation types. */
const signature = (part: Part): string => (isFold(part) ? part.rows.map((row) => row.type).join(" ") : part.type);

/** `runs[p - 1][i]`: how many consecutive types from `i` on equal the type `p` places later. */
function runLengths(types: readonly string[]): Uint32Array[] {
  const most = Math.min(LONGEST, types.length >> 1);
  return Array.from({ length: most }, (_, index) => {
    const period = index + 1;
    const runs = new Uint32Array(types.length + 1);
    for (let i = types.length - period - 1; i >= 0; i--) runs[i] = types[i] === types[i + period] ? (runs[i + 1] ?? 0) + 1 : 0;
    return runs;
  });
}

interface Block {
  period: number;
  times: number;
  /** Parts before the first block: a block begins where the fewest values cross. */
  skipped: number;
}

/** The block at `start` whose repetitions cover the most parts; the shortest of equals. */
function bestBlock(runs: readonly Uint32Array[], start: number, all: readonly Part[], crossing: Crossings): Block {
  let best: Block = { period: 1, times: 1, skipped: 0 };
  for (let period = 1; period <= runs.length && start + 2 * period <= all.length; period++) {
    const times = Math.floor((runs[period - 1]?.[start] ?? 0) / period) + 1;
    if (times >= 2 && times * period > best.times * best.period) best = { period, times, skipped: 0 };
  }
  if (best.times < 2 || best.period === 1) return best;
  const [period, run, entry] = [best.period, runs[best.period - 1]?.[start] ?? 0, entering(all[start], crossing)];
  let least = entry;
  for (let skipped = 1; skipped < period; skipped++) {
    const entered = entering(all[start + skipped], crossing);
    const times = Math.floor((run - skipped) / period) + 1;
    if (entered < least && times >= Math.max(best.times - 1, 2)) [least, best] = [entered, { period, times, skipped }];
  }
  return best;
}

const entering = (part: Part | undefined, crossing: Crossings): number => {
  const row = part && (isFold(part) ? part.rows[0] : part);
  return (row && crossing.get(row)) ?? Number.POSITIVE_INFINITY;
};

/** Cuts a list into pieces where the fewest values cross; what is folded stays whole between them. */
function inPieces(parts: readonly Part[], path: string, crossing: Crossings): Part[] {
  const size = Math.max(PIECE, Math.ceil(parts.length / MANY));
  const pieces: Part[] = [];
  for (let start = 0; start < parts.length; ) {
    const inner = parts.slice(start, endOf(parts, start, size, crossing));
    start += inner.length;
    const rows = rowsOf(inner);
    if (inner.length < FEWEST) pieces.push(...inner);
    else
      pieces.push({
        id: `${path}piece@${rows[0]?.id}`,
        title: pieceTitle(rows),
        rows,
        // A piece may be as long as the list that is cut.
        parts: inner.length < parts.length ? short(inner, `${path}${rows[0]?.id}:`, crossing) : inner,
      });
  }
  return pieces;
}

/** The end of a piece of about `size` parts. Folds of many operations are pieces of their own. */
function endOf(parts: readonly Part[], start: number, size: number, crossing: Crossings): number {
  const isLarge = (part: Part | undefined) => !!part && isFold(part) && part.rows.length >= PIECE;
  if (isLarge(parts[start])) return start + 1;
  let [best, least] = [Math.min(start + size, parts.length), Number.POSITIVE_INFINITY];
  const most = Math.min(start + Math.ceil(size * 1.5), parts.length);
  for (let end = start + 1; end <= most; end++) {
    if (isLarge(parts[end])) return end;
    if (end < start + size * 0.6) continue;
    const crossed = end === parts.length ? 0 : entering(parts[end], crossing);
    if (crossed <= least) [best, least] = [end, crossed];
  }
  return best;
}

/** `conv … add` */
function pieceTitle(rows: readonly Row[]): string {
  const [first, last] = [rows[0]?.layerType || rows[0]?.type, rows.at(-1)?.layerType || rows.at(-1)?.type];
  return first === last ? `${first} …` : `${first} … ${last}`;
}
