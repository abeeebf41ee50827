import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { type Cell, toCsv } from "../data/csv";
import { drawCharts, hasCharts, saveFile, tablesIn } from "./save";

/** A section of the page with a heading that links can target, and buttons that save its charts and tables. */
export function Section(props: {
  id: string;
  title: string;
  /** Origin tags and other remarks beside the heading. */
  note?: ComponentChildren;
  actions?: ComponentChildren;
  /** What is saved as CSV; else the tables in the section. */
  cells?: () => Cell[][];
  children: ComponentChildren;
}) {
  const { id, cells } = props;
  const ref = useRef<HTMLElement>(null);
  const [shown, setShown] = useState({ charts: false, tables: false });
  // What there is to save depends on what the views inside have rendered; before links are followed, as buttons make the heading taller.
  useLayoutEffect(() => {
    const section = ref.current;
    if (!section) return;
    const found = { charts: hasCharts(section), tables: cells !== undefined || section.querySelector("table.plain") !== null };
    setShown((old) => (old.charts === found.charts && old.tables === found.tables ? old : found));
  });
  const savePicture = async () => {
    const picture = ref.current && (await drawCharts(ref.current));
    if (picture) saveFile(`${id}.png`, picture);
  };
  const saveTable = () => {
    const rows = cells?.() ?? (ref.current ? tablesIn(ref.current) : []);
    saveFile(`${id}.csv`, new Blob([toCsv(rows)], { type: "text/csv" }));
  };
  return (
    <section ref={ref} id={id} class="section" aria-labelledby={`${id}-title`}>
      <div class="section-head">
        <h2 id={`${id}-title`}>{props.title}</h2>
        {props.note && <div class="section-note">{props.note}</div>}
        <div class="section-actions">
          {props.actions}
          {shown.charts && (
            <button type="button" class="quiet" title="Save the chart as PNG" onClick={() => void savePicture()}>
              PNG
            </button>
          )}
          {shown.tables && (
            <button type="button" class="quiet" title="Save the table as CSV" onClick={saveTable}>
              CSV
            </button>
          )}
        </div>
      </div>
      {props.children}
    </section>
  );
}
