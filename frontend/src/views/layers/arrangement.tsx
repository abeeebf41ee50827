import { useState } from "preact/hooks";
import type { Column } from "./columns";

/** Which columns are shown, in which order and how wide. */
export interface Arrangement {
  hidden: readonly string[];
  /** Keys of columns; others follow in the usual order. */
  order: readonly string[];
  /** In pixels, by key. */
  widths: Readonly<Record<string, number>>;
}

export const USUAL: Arrangement = { hidden: [], order: [], widths: {} };
const KEY = "coremlscope-columns";

/** The columns in the chosen order, hidden ones included. */
export function inOrder(columns: readonly Column[], { order }: Arrangement): Column[] {
  const place = (column: Column) => (order.includes(column.key) ? order.indexOf(column.key) : order.length);
  return [...columns].sort((a, b) => place(a) - place(b));
}

/** The arrangement after a column moved to the place of another. */
export function moved(columns: readonly Column[], arrangement: Arrangement, key: string, to: string): Arrangement {
  const keys = inOrder(columns, arrangement).map((one) => one.key);
  const [from, place] = [keys.indexOf(key), keys.indexOf(to)];
  if (from < 0 || place < 0) return arrangement;
  keys.splice(from, 1);
  keys.splice(place, 0, key);
  return { ...arrangement, order: keys };
}

/** The arrangement of columns, it is stored where the browser permits it. */
export function useArrangement(usual: Arrangement): [Arrangement, (change: (old: Arrangement) => Arrangement) => void] {
  const [arrangement, set] = useState<Arrangement>(() => stored() ?? usual);
  const change = (make: (old: Arrangement) => Arrangement) =>
    set((old) => {
      const next = make(old);
      try {
        localStorage.setItem(KEY, JSON.stringify(next));
      } catch {
        // the arrangement is not stored then
      }
      return next;
    });
  return [arrangement, change];
}

function stored(): Arrangement | null {
  try {
    const text = localStorage.getItem(KEY);
    return text === null ? null : readArrangement(JSON.parse(text));
  } catch {
    return null; // a page opened from a file may have no storage
  }
}

/** Reads a stored arrangement; what is not one is left out. */
export function readArrangement(found: unknown): Arrangement {
  if (typeof found !== "object" || found === null) return USUAL;
  const { hidden, order, widths } = found as Record<string, unknown>;
  const texts = (list: unknown) => (Array.isArray(list) ? list.filter((one): one is string => typeof one === "string") : []);
  const sizes = Object.entries(typeof widths === "object" && widths ? widths : {}).filter(([, width]) => width >= LEAST && width <= MOST);
  return { hidden: texts(hidden), order: texts(order), widths: Object.fromEntries(sizes) };
}

/** The least and the greatest width of a column in pixels. */
const [LEAST, MOST] = [36, 1200];
/** Pixels by which a key changes a width. */
const STEP = 16;

/** The edge of a heading: dragged, or with the arrow keys, it changes the width of its column; a double click restores it. */
export function Edge(props: { title: string; onWidth: (pixels: number | null) => void }) {
  const start = (event: PointerEvent) => {
    const edge = event.currentTarget as HTMLElement;
    const [from, width] = [event.clientX, edge.parentElement?.offsetWidth ?? LEAST];
    const move = (to: PointerEvent) => props.onWidth(within(width + to.clientX - from));
    edge.setPointerCapture(event.pointerId);
    edge.addEventListener("pointermove", move);
    edge.addEventListener("lostpointercapture", () => edge.removeEventListener("pointermove", move), { once: true });
  };
  const press = (event: KeyboardEvent) => {
    const by = { ArrowLeft: -STEP, ArrowRight: STEP }[event.key];
    if (by === undefined) return;
    const edge = event.currentTarget as HTMLElement;
    props.onWidth(within((edge.parentElement?.offsetWidth ?? LEAST) + by));
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <button
      type="button"
      class="column-edge"
      aria-label={`Width of the column ${props.title}: left and right`}
      title="Drag to change the width; double click to restore it"
      // Else the heading itself is dragged.
      onMouseDown={(event) => event.preventDefault()}
      onPointerDown={start}
      onKeyDown={press}
      onClick={(event) => event.stopPropagation()}
      onDblClick={() => props.onWidth(null)}
    />
  );
}

const within = (pixels: number): number => Math.round(Math.min(Math.max(pixels, LEAST), MOST));

/** Which columns are shown, and their order. */
export function ColumnMenu(props: {
  columns: readonly Column[];
  arrangement: Arrangement;
  usual: Arrangement;
  onChange: (change: (old: Arrangement) => Arrangement) => void;
}) {
  const { arrangement, onChange } = props;
  const columns = inOrder(props.columns, arrangement);
  const toggle = (key: string) =>
    onChange((old) => ({ ...old, hidden: old.hidden.includes(key) ? old.hidden.filter((one) => one !== key) : [...old.hidden, key] }));
  return (
    <details class="column-menu">
      <summary class="quiet">Columns</summary>
      <div>
        {columns.map((column, index) => (
          <div class="column-choice" key={column.key}>
            <label title={column.hint}>
              <input type="checkbox" checked={!arrangement.hidden.includes(column.key)} onChange={() => toggle(column.key)} />{" "}
              {column.title}
            </label>
            {([-1, 1] as const).map((by) => {
              const other = columns[index + by];
              return (
                <button
                  key={by}
                  type="button"
                  class="step"
                  aria-label={`Move ${column.title} ${by < 0 ? "to the left" : "to the right"}`}
                  disabled={!other}
                  onClick={() => other && onChange((old) => moved(columns, old, column.key, other.key))}
                >
                  {by < 0 ? "↑" : "↓"}
                </button>
              );
            })}
          </div>
        ))}
        <button type="button" class="quiet" onClick={() => onChange(() => props.usual)}>
          Restore
        </button>
      </div>
    </details>
  );
}
