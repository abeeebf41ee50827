import type { RefObject } from "preact";
import type { Row } from "../../data/rows";
import { useReport } from "../../report";

/** The operations whose name, type or id holds every word; none without words. */
export function findRows(rows: readonly Row[], text: string): Row[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return [];
  return rows.filter((row) => {
    const all = `${row.layer} ${row.name} ${row.layerType} ${row.type} ${row.id}`.toLowerCase();
    return words.every((word) => all.includes(word));
  });
}

/** Finds operations; Enter goes to the next one, with Shift to the one before. */
export function Search(props: {
  field: RefObject<HTMLInputElement | null>;
  text: string;
  onText: (text: string) => void;
  found: readonly Row[];
}) {
  const { found } = props;
  const { select, selected } = useReport();
  const place = found.findIndex((row) => row.id === selected);
  const go = (step: number) => {
    const next = found[place < 0 ? (step > 0 ? 0 : found.length - 1) : (place + step + found.length) % found.length];
    if (next) select(next.id);
  };
  return (
    <search class="graph-search">
      <input
        ref={props.field}
        type="search"
        placeholder="Find an operation"
        aria-label="Find an operation in the graph"
        value={props.text}
        onInput={(event) => props.onText(event.currentTarget.value)}
        onKeyDown={(event) => event.key === "Enter" && go(event.shiftKey ? -1 : 1)}
      />
      {found.length > 1 && (
        <>
          <button type="button" class="quiet" aria-label="The one before" onClick={() => go(-1)}>
            ‹
          </button>
          <button type="button" class="quiet" aria-label="The next one" onClick={() => go(1)}>
            ›
          </button>
        </>
      )}
      <span class="faint" aria-live="polite">
        {props.text.trim() && (place >= 0 ? `${place + 1} of ${found.length}` : `${found.length} found`)}
      </span>
    </search>
  );
}
