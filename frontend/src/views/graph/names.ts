import { isFold, type Part } from "../../data/folding";
import { lastParts } from "../../data/names";
import type { Row } from "../../data/rows";

/** Parts of names that so many of the names begin or end with are left out. */
const SHARED = 0.6;

/** Shortens the names of a graph: without what most of them begin with, and most of a type end with. */
export class Names {
  private readonly prefix: string;
  private readonly suffixes = new Map<string, string>();

  constructor(rows: readonly Row[]) {
    const names = rows.map(nameOf);
    this.prefix = shared(names);
    const all = reversed(shared(names.map(reversed)));
    for (const type of new Set(rows.map((row) => row.type))) {
      const own = rows.filter((row) => row.type === type).map((row) => reversed(nameOf(row)));
      this.suffixes.set(type, reversed(shared(own)) || all);
    }
  }

  of(part: Part): string {
    let name = nameOf(part);
    if (isFold(part)) return name;
    const suffix = this.suffixes.get(part.type) ?? "";
    if (name.endsWith(suffix)) name = name.slice(0, name.length - suffix.length);
    return name.startsWith(this.prefix) ? name.slice(this.prefix.length) : name;
  }
}

/** The name of a fold, or the author's name of an operation or its layer. */
export const nameOf = (part: Part): string => (isFold(part) ? part.title : part.layer || part.name || part.id);

const reversed = (text: string): string => [...text].reverse().join("");

/** The longest beginning up to a separator that most names share and that is not all of one. */
function shared(names: readonly string[]): string {
  let found = "";
  for (;;) {
    const counts = new Map<string, number>();
    for (const name of names) {
      if (!name.startsWith(found)) continue;
      const end = name.slice(found.length).search(/[/_.]/);
      const next = end < 0 ? "" : name.slice(0, found.length + end + 1);
      if (next && next.length < name.length) counts.set(next, (counts.get(next) ?? 0) + 1);
    }
    const [best] = [...counts].sort((a, b) => b[1] - a[1]);
    if (!best || best[1] < names.length * SHARED || best[1] < 3) return found;
    found = best[0];
  }
}

/** Shortens a name in its middle; its last two parts stay whole where they have room. */
export function shortenName(name: string, most: number): string {
  if (name.length <= most) return name;
  const tail = lastParts(name);
  const kept = tail.length > 0 && tail.length < most ? tail.length : Math.ceil(most / 2);
  return `${name.slice(0, most - 1 - kept)}…${name.slice(-kept)}`;
}

/** Shortens a text at its end. */
export const shorten = (text: string, most: number): string => (text.length <= most ? text : `${text.slice(0, most - 1)}…`);
