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

/** The longest repeated block searched for, and the fewest operations in a fold. */
const [LONGEST, FEWEST] = [160, 3];
/** Lists of more parts than this are also searched for repeated blocks. */
const MANY = 40;
/** The most top-level parts of a graph; longer lists are cut into pieces. */
const MOST = 240;

/** Folds a list of operations by the scopes of their names, or by repeated blocks of types. */
export function fold(rows: readonly Row[]): Part[] {
  const scoped = rows.filter((row) => scopes(row).length > 1).length;
  const scopesOrRows = scoped > rows.length * 0.6 ? byScope(rows, 0, "") : rows;
  const parts = scopesOrRows.length > MANY ? byRepetition(scopesOrRows, "") : [...scopesOrRows];
  return parts.length > MOST ? inPieces(parts) : parts;
}

/** Every fold, the outer ones first. */
export function folds(parts: readonly Part[]): Fold[] {
  return parts.filter(isFold).flatMap((part) => [part, ...folds(part.parts)]);
}

const scopes = (row: Row): string[] => (row.layer || row.name).split(/[/.]/).filter(Boolean);

/** Folds neighbours with the same scope. */
function byScope(rows: readonly Row[], depth: number, path: string): Part[] {
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
      const inner = byScope(run, depth + 1, `${path}/${scope}`);
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
function byRepetition(all: readonly Part[], path: string): Part[] {
  const runs = runLengths(all.map(signature));
  const parts: Part[] = [];
  for (let start = 0; start < all.length; ) {
    const { period, times } = bestBlock(runs, start, all.length);
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
      const within = period > 2 * FEWEST ? byRepetition(inner, `${id}:`) : inner;
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

/** The block at `start` whose repetitions cover the most parts; the shortest of equals. */
function bestBlock(runs: readonly Uint32Array[], start: number, end: number): { period: number; times: number } {
  let best = { period: 1, times: 1 };
  for (let period = 1; period <= runs.length && start + 2 * period <= end; period++) {
    const times = Math.floor((runs[period - 1]?.[start] ?? 0) / period) + 1;
    if (times >= 2 && times * period > best.times * best.period) best = { period, times };
  }
  return best;
}

/** Groups neighbours into pieces so that at most `MOST` parts remain. */
function inPieces(parts: readonly Part[]): Part[] {
  const size = Math.ceil(parts.length / (MOST / 4));
  const pieces: Part[] = [];
  for (let start = 0; start < parts.length; start += size) {
    const inner = parts.slice(start, start + size);
    const rows = rowsOf(inner);
    pieces.push({ id: `piece@${rows[0]?.id}`, title: `from ${rows[0]?.name || rows[0]?.id}`, rows, parts: inner });
  }
  return pieces;
}
