/** `+5.0 %`, `−27.3 %`, `×3.2` for a ratio of two or more, as in `difference.py`. */
export function ratioText(ratio: number | null): string {
  if (ratio === null) return "–";
  if (ratio >= 2) return `×${Number(ratio.toPrecision(3))}`;
  const percent = (Math.abs(ratio - 1) * 100).toFixed(1);
  return `${percent === "0.0" ? "±" : ratio > 1 ? "+" : "−"}${percent} %`;
}
