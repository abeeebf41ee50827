import { modulePaths } from "./modules";
import type { Row } from "./rows";

/** Operations that the graph can show as one part: a scope of the author's names, or a repeated block. */
export interface Fold {
  id: string;
  title: string;
  /** The operations in it, in the program's order. */
  rows: Row[];
  parts: Part[];
  /** How often what is in it repeats, where that is equal each time: its parts are then the repetitions. */
  times?: number;
}

export type Part = Fold | Row;

export const isFold = (part: Part): part is Fold => "parts" in part;

/** Whether a fold is only a piece of a long list. */
export const isPiece = (fold: Fold): boolean => /(^|:)piece@[^:]*$/.test(fold.id);

/** What is in a fold, once where it repeats. */
export function shownParts(fold: Fold): readonly Part[] {
  const [first] = fold.parts;
  if (!fold.times || !first) return fold.parts;
  return isFold(first) ? first.parts : [first];
}

/** What the blocks of a drawing have in common: they are equal, and what may be closed runs on one unit. */
export interface Sameness {
  /** Equal for operations that a drawing shows alike. */
  kind: (row: Row) => string;
  unit: (row: Row) => string | null;
}

/** Whether the operations run on several units. */
export const isMixed = (rows: readonly Row[], unit: Sameness["unit"]): boolean => rows.some((row) => unit(row) !== unit(rows[0] ?? row));

/** The longest repeated block searched for, and the fewest operations in a fold. */
const [LONGEST, FEWEST] = [160, 3];
/** Lists of more parts than this are also searched for repeated blocks, and then cut into pieces of about so many. */
const [MANY, PIECE] = [24, 12];
/** The part of operations outside folds below which shorter lists are cut as well. */
const LOOSE = 0.2;
/** Drawings of up to so many operations are not cut into pieces. */
export const DRAWN = 800;

/**
 * Folds a list of operations by modules, by repeated blocks, and else into pieces, so that no list has many parts. Blocks and pieces begin
 * where few values cross: between the layers of a network. Blocks repeat types of operations; for a drawing they are the `same`, however
 * few they are, and pieces end where the unit changes.
 */
export function fold(
  rows: readonly Row[],
  inputsOf: (row: Row) => Row[] = () => [],
  modules: ReadonlyMap<Row, readonly string[]> = modulePaths(rows, () => []),
  same: Sameness | null = null,
): readonly Part[] {
  const scopes = (row: Row): string[] => [...(modules.get(row) ?? []), row.id];
  const parts = rows.some((row) => modules.get(row)?.length) ? byScope(rows, 0, "", scopes) : rows;
  const crossing = crossings(rows, inputsOf);
  const whole = new Folding(crossing, same, false).short(parts, "");
  return same && drawn(whole) > DRAWN ? new Folding(crossing, same, true).short(parts, "") : whole;
}

/** How many operations are drawn where all folds are open. */
const drawn = (parts: readonly Part[]): number => parts.reduce((sum, part) => sum + (isFold(part) ? drawn(shownParts(part)) : 1), 0);

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

/** Every fold, the outer ones first. */
export function folds(parts: readonly Part[]): Fold[] {
  return parts.filter(isFold).flatMap((part) => [part, ...folds(part.parts)]);
}

/** Every fold of a drawing: of equal blocks those of the first. */
export function shownFolds(parts: readonly Part[]): Fold[] {
  return parts.filter(isFold).flatMap((part) => [part, ...shownFolds(shownParts(part))]);
}

/** The operation of the first of equal blocks that each operation of the others is like. */
export function firstsOf(parts: readonly Part[]): Map<Row, Row> {
  const found = new Map<Row, Row>();
  for (const { times, rows } of shownFolds(parts)) {
    const length = times ? rows.length / times : rows.length;
    rows.forEach((row, place) => {
      const first = rows[place % length];
      if (first && first !== row) found.set(row, first);
    });
  }
  return found;
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

const rowsOf = (parts: readonly Part[]): Row[] => parts.flatMap((part) => (isFold(part) ? part.rows : [part]));

/** `runs[p - 1][i]`: how many consecutive types from `i` on equal the type `p` places later. */
function runLengths(types: readonly number[]): Uint32Array[] {
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

/** Shortens lists of parts. */
class Folding {
  /** Numbers for what is equal, which compare faster than texts. */
  private readonly numbers = new Map<string, number>();

  constructor(
    private readonly crossing: Crossings,
    private readonly same: Sameness | null,
    /** Whether a drawing is cut into pieces. */
    private readonly isCut: boolean,
  ) {}

  /** Shortens a list, and the lists in it, by folding. */
  short(parts: readonly Part[], path: string): readonly Part[] {
    const inner = parts.map((part) =>
      isFold(part) && !part.times ? { ...part, parts: [...this.short(part.parts, `${part.id}:`)] } : part,
    );
    // Where folds hold most operations, the others do not take the space.
    const loose = inner.filter((part) => !isFold(part)).length;
    const most = loose < rowsOf(inner).length * LOOSE ? PIECE : MANY;
    if (inner.length <= most && !this.same) return inner;
    const repeated = this.byRepetition(inner, path);
    if (this.same ? !this.isCut || repeated.length <= PIECE : repeated.length <= most) return repeated;
    const pieces = this.inPieces(repeated, path);
    return pieces.length > 1 ? pieces : repeated;
  }

  /** Folds consecutive repetitions of a block, such as the layers of a transformer. */
  private byRepetition(all: readonly Part[], path: string): Part[] {
    const runs = runLengths(all.map((part) => this.signature(part)));
    const parts: Part[] = [];
    for (let start = 0; start < all.length; ) {
      const { period, times, skipped } = bestBlock(runs, start, all, this.crossing);
      parts.push(...all.slice(start, start + skipped));
      start += skipped;
      const first = all[start];
      if (!first) break;
      const covered = all.slice(start, start + period * times);
      if (times < 2 || (this.same ? rowsOf(covered).length : covered.length) < 2 * FEWEST) {
        parts.push(first);
        start++;
        continue;
      }
      const block = (number: number): Fold => {
        const inner = covered.slice(number * period, (number + 1) * period);
        const id = `${path}${first.id}×${number}`;
        const within = period > 2 * FEWEST ? this.byRepetition(inner, `${id}:`) : inner;
        return { id, title: `block ${number + 1} of ${times}`, rows: rowsOf(inner), parts: within };
      };
      parts.push({
        id: `${path}${first.id}×`,
        title: `${times} × ${period === 1 ? nameOfRun(covered) : "block"}`,
        rows: rowsOf(covered),
        parts: period === 1 ? covered : Array.from({ length: times }, (_, number) => block(number)),
        ...(this.same && { times }),
      });
      start += period * times;
    }
    return parts;
  }

  /** Equal for two parts with the same operations. */
  private signature(part: Part): number {
    const kind = this.same?.kind ?? ((row: Row) => row.type);
    const text = isFold(part) ? part.rows.map(kind).join(" ") : kind(part);
    const known = this.numbers.get(text) ?? this.numbers.size;
    this.numbers.set(text, known);
    return known;
  }

  /** Cuts a list into pieces where the fewest values cross; what is folded stays whole between them. */
  private inPieces(parts: readonly Part[], path: string): Part[] {
    const size = Math.max(PIECE, Math.ceil(parts.length / MANY));
    const pieces: Part[] = [];
    for (let start = 0; start < parts.length; ) {
      const inner = parts.slice(start, this.endOf(parts, start, size));
      start += inner.length;
      const rows = rowsOf(inner);
      if (inner.length < FEWEST) pieces.push(...inner);
      else
        pieces.push({
          id: `${path}piece@${rows[0]?.id}`,
          title: pieceTitle(rows),
          rows,
          // A piece may be as long as the list that is cut.
          parts: inner.length < parts.length ? [...this.short(inner, `${path}${rows[0]?.id}:`)] : inner,
        });
    }
    return pieces;
  }

  /** The end of a piece of about `size` parts. Folds of many operations are pieces of their own. */
  private endOf(parts: readonly Part[], start: number, size: number): number {
    const isLarge = (part: Part | undefined) => !!part && isFold(part) && part.rows.length >= PIECE;
    if (isLarge(parts[start])) return start + 1;
    let [best, least] = [Math.min(start + size, parts.length), Number.POSITIVE_INFINITY];
    const most = Math.min(start + Math.ceil(size * 1.5), parts.length);
    for (let end = start + 1; end <= most; end++) {
      if (isLarge(parts[end]) || this.isBorder(parts, end)) return end;
      if (end < start + size * 0.6) continue;
      const crossed = end === parts.length ? 0 : entering(parts[end], this.crossing);
      if (crossed <= least) [best, least] = [end, crossed];
    }
    return best;
  }

  /** Whether the unit changes between a part and the one before. */
  private isBorder(parts: readonly Part[], at: number): boolean {
    return !!this.same && at < parts.length && isMixed(rowsOf(parts.slice(at - 1, at + 1)), this.same.unit);
  }
}

/** `relu`, `layer 1 … layer 4`. */
function nameOfRun(parts: readonly Part[]): string {
  const [first, last] = [parts[0], parts.at(-1)].map((part) => part && (isFold(part) ? part.title : part.type));
  return first === last ? `${first}` : `${first} … ${last}`;
}

/** `conv … add` */
function pieceTitle(rows: readonly Row[]): string {
  const [first, last] = [rows[0]?.layerType || rows[0]?.type, rows.at(-1)?.layerType || rows.at(-1)?.type];
  return first === last ? `${first} …` : `${first} … ${last}`;
}
