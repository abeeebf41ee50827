/** The modules of a network that operations belong to, from names. */
import type { Row } from "./rows";

/** Ends of names of weights that say what the weight is, or what a converter did to it. */
const ENDS = /_(to_fp16|quantized|palettized|cast_fp16|cast|weight|bias|gamma|beta|running_mean|running_var|kernel|perm)(_\d+)?$/;
/** What converters call values and constants of their own, besides the types of operations: `const_66`, `var_118_bias_0`. */
const CONVERTER = [
  ...["const", "var", "op", "tmp", "input", "inversed", "x", "y", "hidden_states"],
  // Types of operations that converters compute beforehand.
  ...["concat", "transpose", "reshape", "expand_dims", "squeeze", "cast", "add", "sub", "mul", "real_div", "gather", "stack"],
];
/** The share of operations that must have a path in their names for these to be taken. */
const MOST = 0.6;
/** The fewest words of a typical name that contains a path. */
const WORDS = 3;

/**
 * The path of modules of each row, the outermost first: from paths in the names of operations (`encoder/layer.0/query`), else from the
 * names of their weights (`encoder_layer_0_query_weight`), where an operation without weights belongs to what the weighted ones before and
 * after it have in common. Empty paths where names say nothing.
 */
export function modulePaths(rows: readonly Row[], weightsOf: (row: Row) => string[]): Map<Row, string[]> {
  const written = rows.map((row) => (row.layer || row.name).split(/[/.]/).filter(Boolean));
  if (written.filter((path) => path.length > 1).length > rows.length * MOST) {
    return new Map(rows.map((row, index) => [row, (written[index] ?? []).slice(0, -1)]));
  }
  const named = new Map<Row, string[]>();
  const types = new Set([...rows.map((row) => row.type), ...CONVERTER]);
  for (const row of rows) {
    const name = weightsOf(row).find((one) => one && !isDerived(one, row, types));
    if (name) named.set(row, words(name));
  }
  if (named.size < 2) for (const row of rows) if (row.name) named.set(row, words(row.layer || row.name));
  const lengths = [...named.values()].map((path) => path.length).sort((a, b) => a - b);
  if (named.size < 2 || (lengths[lengths.length >> 1] ?? 0) < WORDS) return new Map(rows.map((row) => [row, []]));
  return between(rows, segmented(named));
}

/** Whether a converter named a weight after its operation, which says nothing about modules. */
function isDerived(name: string, row: Row, types: ReadonlySet<string>): boolean {
  const numbered = /^_*(.+?)_\d+/.exec(name)?.[1] ?? "";
  return name.startsWith(`${row.name.replace(ENDS, "")}_`) || types.has(numbered);
}

function words(name: string): string[] {
  let left = name;
  for (let before = ""; before !== left; ) {
    before = left;
    left = left.replace(ENDS, "");
  }
  return left.split("_").filter(Boolean);
}

interface Branch {
  word: string;
  children: Map<string, Branch>;
  /** Whether a name ends here. */
  isEnd: boolean;
}

/** Joins words to names of modules: a name ends at a number, and where names of weights branch. */
function segmented(named: ReadonlyMap<Row, string[]>): Map<Row, string[]> {
  const root: Branch = { word: "", children: new Map(), isEnd: false };
  for (const path of named.values()) {
    let branch = root;
    for (const word of path) {
      let next = branch.children.get(word);
      if (!next) {
        next = { word, children: new Map(), isEnd: false };
        branch.children.set(word, next);
      }
      branch = next;
    }
    branch.isEnd = true;
  }
  return new Map([...named].map(([row, path]) => [row, segments(root, path)]));
}

function segments(root: Branch, path: readonly string[]): string[] {
  const found: string[] = [];
  let [branch, name] = [root, ""];
  path.forEach((word, index) => {
    branch = branch.children.get(word) ?? branch;
    name = name ? `${name}_${word}` : word;
    const isLast = index === path.length - 1;
    const next = path[index + 1] ?? "";
    const isNumber = /^\d+$/.test(word) || /^\d+$/.test(next);
    if (isLast || isNumber || (branches(branch) && !onlyEnds(branch))) {
      found.push(name);
      name = "";
    }
  });
  return found;
}

const branches = (branch: Branch): boolean => branch.isEnd || branch.children.size > 1;

/** Whether all that follows is a last word: `linear_q`, `linear_k` are two modules, not a module `linear` with two inside. */
const onlyEnds = (branch: Branch): boolean => !branch.isEnd && [...branch.children.values()].every((one) => one.children.size === 0);

/** Gives each row without a path what the rows with paths before and after it have in common. */
function between(rows: readonly Row[], named: ReadonlyMap<Row, string[]>): Map<Row, string[]> {
  const after: (string[] | undefined)[] = [];
  let next: string[] | undefined;
  for (let index = rows.length - 1; index >= 0; index--) {
    const row = rows[index];
    next = (row && named.get(row)) ?? next;
    after[index] = next;
  }
  const found = new Map<Row, string[]>();
  let before: string[] | undefined;
  rows.forEach((row, index) => {
    const own = named.get(row);
    found.set(row, own ?? common(before ?? [], after[index] ?? []));
    before = own ?? before;
  });
  return found;
}

/** What two paths begin with alike. */
function common(one: readonly string[], other: readonly string[]): string[] {
  const end = one.findIndex((step, index) => step !== other[index]);
  return end < 0 ? [...one] : one.slice(0, end);
}
