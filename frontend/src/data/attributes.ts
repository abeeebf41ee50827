/** What tells one operation of a type from another, in a few characters: `3×3 s2 g96`. */
import type { Arguments } from "./arguments";
import type { Row } from "./rows";

const numbers = (text: string): string[] => text.match(/-?[\d.e+-]+/g) ?? [];
const sizes = (text: string): string => numbers(text).join("×");

/** `s2`, `s2×1`; empty where all are 1. */
function unlessOne(letter: string): (text: string) => string {
  return (text) => {
    const all = [...new Set(numbers(text))];
    if (all.length === 1) return all[0] === "1" ? "" : `${letter}${all[0]}`;
    return all.length > 0 ? `${letter}${sizes(text)}` : "";
  };
}

const axes = (text: string): string => `axis ${numbers(text).join(", ")}`;
const plain = (text: string): string => text.replaceAll('"', "");

/** The attributes that are named, in their order, with how they are written. */
const WRITTEN: readonly [string, (text: string) => string][] = [
  ["kernel_sizes", sizes],
  ["strides", unlessOne("s")],
  ["dilations", unlessOne("d")],
  ["groups", unlessOne("g")],
  ["scale_factor_height", (text) => `×${plain(text)}`],
  ["axis", axes],
  ["axes", axes],
  ["perm", (text) => numbers(text).join(" ")],
  ["transpose_x", (text) => (text === "true" ? "xᵀ" : "")],
  ["transpose_y", (text) => (text === "true" ? "yᵀ" : "")],
  ["y", (text) => (text.length <= 12 ? plain(text) : "")],
  ["dtype", plain],
];

/** The key attributes of an operation; empty where it has none, or they are not known. */
export function keyAttributes(row: Row, known: Arguments): string {
  if (row.op < 0) return "";
  const given = new Map(known.attributes(row));
  const written = WRITTEN.map(([name, write]) => (given.has(name) ? write(given.get(name) ?? "") : ""));
  return [kernel(row, known), ...written].filter(Boolean).join(" ");
}

/** The kernel of a convolution (`3×3`), the channels of a linear layer (`512→2048`). */
function kernel(row: Row, known: Arguments): string {
  if (!/^(conv|conv_transpose|linear)$/.test(row.type)) return "";
  const weight = known.weights(row).find((one) => /(^|: )(weight|data|indices|nonzero_data|quantized_data)$/.test(one.parameter));
  const shape = numbers(/\[[^\]]*\]/.exec(weight?.type ?? "")?.[0] ?? "");
  if (row.type === "linear") return shape.length === 2 ? `${shape[1]}→${shape[0]}` : "";
  return shape.slice(2).join("×");
}
