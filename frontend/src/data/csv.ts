/** Tables as CSV (RFC 4180). */

export type Cell = string | number | null | undefined;

/** What spreadsheets take for a formula at the beginning of a cell; as in `escaping.py`. */
const FORMULA = /(^|;)(?=\s*[=+\-@＝＋－＠])/g;

/** A table as CSV. Numbers stay numbers; texts that a spreadsheet would take for a formula get an apostrophe. */
export function toCsv(rows: readonly (readonly Cell[])[]): string {
  return rows.map((cells) => `${cells.map(cellText).join(",")}\r\n`).join("");
}

function cellText(cell: Cell): string {
  if (typeof cell === "number") return String(cell);
  const text = (cell ?? "").replace(FORMULA, "$1'");
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
