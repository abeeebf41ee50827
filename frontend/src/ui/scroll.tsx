import type { ComponentChildren } from "preact";
import { useLayoutEffect } from "preact/hooks";
import { useWidth } from "./width";

/** Tables in narrower regions, in CSS pixels, have their rows on several lines where their columns need more. */
const NARROW = 720;

/** A region that scrolls sideways where its content is wider than the page; on phones and at 200 % zoom, rows of tables wrap instead. */
export function ScrollRegion(props: { label: string; children: ComponentChildren }) {
  const [ref, width] = useWidth<HTMLElement>(NARROW);
  useLayoutEffect(() => {
    const region = ref.current;
    if (!region) return;
    // What the columns need shows only while they are columns.
    region.classList.remove("wrapped");
    if (width >= NARROW || region.scrollWidth <= region.clientWidth) return;
    for (const table of region.querySelectorAll<HTMLTableElement>("table.plain")) nameCells(table);
    region.classList.add("wrapped");
  });
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard.
    <section ref={ref} class="scroll-x" tabIndex={0} aria-label={props.label}>
      {props.children}
    </section>
  );
}

/** Gives each cell the heading of its column, which the style sheet writes before it; texts that need none have none. */
function nameCells(table: HTMLTableElement): void {
  const heads = [...(table.tHead?.rows[0]?.cells ?? [])].map((cell) => (cell.matches(":has(.hidden), .plain-text") ? "" : textOf(cell)));
  for (const row of table.querySelectorAll("tbody tr")) {
    let column = 0;
    for (const cell of row.querySelectorAll<HTMLTableCellElement>("th, td")) {
      cell.dataset.head = cell.tagName === "TD" && cell.colSpan === 1 ? (heads[column] ?? "") : "";
      column += cell.colSpan;
    }
  }
}

/** Not its `innerText`, which is empty out of view. */
const textOf = (cell: HTMLElement): string => [...cell.childNodes].map((part) => part.textContent).join(" ");
