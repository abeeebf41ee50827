/** Formats numbers as `units.py` does, so that page and console agree. */

const FACTORS: [number, string][] = [
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
];

/** Digits beyond which no number that is shown differs from a tie. */
const BEYOND = 25;

/** A number with decimals; a tie, such as 12.25 with one, goes to the even digit, as in Python. */
export function fixed(value: number, decimals: number): string {
  const shown = value.toFixed(decimals);
  const isTie = /^50*$/.test(value.toFixed(decimals + BEYOND).slice(-BEYOND));
  if (!isTie || Number(shown.slice(-1)) % 2 === 0) return shown;
  return (Number(shown) - Math.sign(value) * 10 ** -decimals).toFixed(decimals);
}

function threeDigits(value: number): string {
  if (value >= 99.95) return fixed(value, 0);
  return value >= 9.995 ? fixed(value, 1) : fixed(value, 2);
}

/** `<1 ns`, `850 ns`, `1.23 ms`, `4.50 s`. */
export function duration(seconds: number): string {
  const size = Math.abs(seconds);
  const sign = seconds < 0 ? "−" : "";
  for (const [factor, unit] of [
    [1, "s"],
    [1e-3, "ms"],
    [1e-6, "µs"],
  ] as const) {
    if (size >= factor * 0.9995) return `${sign}${threeDigits(size / factor)} ${unit}`;
  }
  const rounded = fixed(size * 1e9, 0);
  return size > 0 && Number(rounded) === 0 ? "<1 ns" : `${sign}${rounded} ns`;
}

/** What Core ML's cost model charges, which is no time and has no unit: `3.49`. */
export const cost = (milliseconds: number): string => `${Number(milliseconds.toPrecision(3))}`;

/** A time, or what a plan charges. */
export const figure = (seconds: number, origin: string): string => (origin === "planned" ? cost(seconds * 1e3) : duration(seconds));

function scaled(value: number, unit: string): string {
  if (value < 1000) return `${fixed(value, 0)}${unit ? ` ${unit}` : ""}`;
  for (const [factor, prefix] of FACTORS) {
    if (value >= factor * 0.9995) return `${threeDigits(value / factor)} ${prefix}${unit}`;
  }
  return `${fixed(value / 1e3, 2)} k${unit}`;
}

/** `512 B`, `3.41 kB`, `14.0 MB`. */
export const bytes = (count: number): string => scaled(count, "B");

/** `512`, `3.50 M`, `4.12 G`. */
export const count = (value: number): string => scaled(value, "");

/** `1.25 J`, `3.20 mJ`. */
export function energy(joules: number): string {
  if (joules >= 1000) return `${fixed(joules, 0)} J`;
  for (const [factor, unit] of [
    [1, "J"],
    [1e-3, "mJ"],
    [1e-6, "µJ"],
  ] as const) {
    if (joules >= factor * 0.9995) return `${threeDigits(joules / factor)} ${unit}`;
  }
  return joules ? `${fixed(joules * 1e9, 0)} nJ` : "0 J";
}

/** `1.25 W`, `320 mW`. */
export const power = (watts: number): string => (watts >= 0.9995 ? `${threeDigits(watts)} W` : `${threeDigits(watts * 1e3)} mW`);

/** `12.3 %`. */
export const share = (part: number): string => `${fixed(part * 100, 1)} %`;

/** `12 %`, as in `reports/answer.py`. */
export const percent = (part: number): string => `${fixed(part * 100, 0)} %`;

/** `1 input`, `3 inputs`, `2 classes`. */
export function plural(number: number, noun: string): string {
  return number === 1 ? `1 ${noun}` : `${number} ${noun}${/(s|ch)$/.test(noun) ? "es" : "s"}`;
}

/** The rate that a shown duration amounts to, in words: `about 45.2 predictions a second`, `one prediction in about 2.33 seconds`. */
export function rateInWords(seconds: number, noun: string): string {
  const shown = Number(seconds.toPrecision(3));
  if (!(shown > 0)) return `no ${noun}s`;
  if (shown > 0.5) return `one ${noun} in about ${threeDigits(shown)} seconds`;
  const rate = Number((1 / shown).toPrecision(3));
  return `about ${rate >= 1000 ? rate : threeDigits(rate)} ${noun}s a second`;
}

/** `tensor<fp16, [1, 3]>` becomes `fp16 1×3`. */
export function compactType(text: string): string {
  return text.replace(/tensor<(\w+), \[([^\]]*)\]>/g, (_, dtype: string, shape: string) =>
    shape ? `${dtype} ${shape.replaceAll(", ", "×")}` : dtype,
  );
}

/** `2026-01-31 12:00 UTC` of an ISO 8601 time in UTC. */
export function moment(iso: string): string {
  const [, day, minute] = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d)/.exec(iso) ?? [];
  return day && minute ? `${day} ${minute} UTC` : iso;
}

/** Where the path inside an archive begins, which has a suffix: `net #2.mlmodel` is the name of a file. */
const INSIDE = /(?<=\.[^\\/.#]+)#/;
const SEPARATOR = new RegExp(`[\\\\/]|${INSIDE.source}`);

/** The last component of a path; in an archive (`App.ipa#Detector.mlmodelc`) the model's own. */
export function fileName(path: string): string {
  return path.split(SEPARATOR).filter(Boolean).at(-1) ?? "model";
}

/** A path for a command, without folders: of a model in an archive `App.ipa#Detector.mlmodelc`. */
export function fileArgument(path: string): string {
  const [file = "", ...inside] = path.split(INSIDE);
  return [fileName(file), ...inside].join("#");
}

/** The shortest ends of paths that tell them apart. */
export function shortNames(texts: readonly string[]): string[] {
  const paths = texts.map((text) => text.split(SEPARATOR).filter(Boolean));
  const distinct = new Set(paths.map((parts) => parts.join("/"))).size;
  const ends = (depth: number) => paths.map((parts) => parts.slice(-depth).join("/"));
  const longest = Math.max(1, ...paths.map((parts) => parts.length));
  let depth = 1;
  while (depth < longest && new Set(ends(depth)).size < distinct) depth++;
  return ends(depth).map((name) => name || "model");
}
