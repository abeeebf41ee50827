import { Component, type ComponentProps } from "preact";
import { useEffect, useState } from "preact/hooks";
import { lastParts, shortName } from "../../data/names";
import type { Row } from "../../data/rows";
import { useReport } from "../../report";
import { onPrint } from "../../ui/print";
import { useWindow } from "../../ui/virtual";
import { Edge } from "./arrangement";
import type { Column } from "./columns";
import type { Sort, SortKey } from "./filter";

const ROW_HEIGHT = 30;
const NAME_WIDTH = "minmax(150px, 2fr)";
/** The number of rows that are printed. */
const PRINTED = 400;

/** A table that renders only the rows in view. Up and down move the selection, left and right fold, Escape clears it. */
export function Grid(props: {
  rows: Row[];
  /** How many equal rows each one stands for, where that is not one. */
  times: ReadonlyMap<string, number>;
  /** Shows the rows that one stands for. */
  onOpen: (id: string) => void;
  columns: Column[];
  sort: Sort;
  onSort: (sort: Sort) => void;
  folded: ReadonlySet<string>;
  onToggle: (id: string) => void;
  /** Widths that differ from those of the columns, in pixels by key; `name` is the first column's. */
  widths: Readonly<Record<string, number>>;
  /** Absent where widths are fixed. */
  onWidth?: ((key: string, pixels: number | null) => void) | undefined;
  /** Moves a column to the place of another. */
  onMove: (key: string, to: string) => void;
}) {
  const { rows, columns, sort, folded, onWidth } = props;
  const { selected, select } = useReport();
  const isPrinting = usePrinting();
  const { ref, first, last, reveal } = useWindow(rows.length, ROW_HEIGHT);
  const [from, to] = isPrinting ? [0, Math.min(rows.length, PRINTED)] : [first, last];
  const pixels = (key: string) => (props.widths[key] ? `${props.widths[key]}px` : undefined);
  const widths = [pixels("name") ?? NAME_WIDTH, ...columns.map((column) => pixels(column.key) ?? column.width)];
  const moving = (key: string) =>
    onWidth && {
      draggable: true,
      onDragStart: (event: DragEvent) => event.dataTransfer?.setData("text/plain", key),
      onDragOver: (event: DragEvent) => event.preventDefault(),
      onDrop: (event: DragEvent) => {
        event.preventDefault();
        props.onMove(event.dataTransfer?.getData("text/plain") ?? "", key);
      },
    };
  // Every row is a grid of its own: a common minimum width aligns their columns.
  const least = widths.reduce((sum, width) => sum + Number.parseInt(width.replace("minmax(", ""), 10), 0);
  const place = rows.findIndex((row) => row.id === selected);
  useEffect(() => {
    if (place >= 0) reveal(place);
  }, [place, reveal]);

  const press = (event: KeyboardEvent) => {
    const steps: Record<string, number> = { ArrowDown: 1, ArrowUp: -1, PageDown: 15, PageUp: -15, Home: -rows.length, End: rows.length };
    const step = steps[event.key];
    const row = rows[place];
    if (step !== undefined) {
      const next = rows[Math.min(Math.max(place + step, 0), rows.length - 1)];
      if (next) select(next.id);
    } else if (event.key === "Escape") select(null);
    else if (row?.hasChildren && event.key === (folded.has(row.id) ? "ArrowRight" : "ArrowLeft")) props.onToggle(row.id);
    else return;
    event.preventDefault();
  };

  return (
    <div
      ref={ref}
      class="grid-scroll"
      role="grid"
      aria-label="Layers"
      aria-rowcount={rows.length + 1}
      aria-colcount={columns.length + 1}
      aria-activedescendant={place >= from && place < to ? `row-${place}` : undefined}
      tabIndex={0}
      onKeyDown={press}
      style={{ "--tracks": widths.join(" "), "--least": `${least}px` }}
    >
      <div class="grid-row grid-head" role="row" aria-rowindex={1}>
        <Heading
          title="Name"
          hint="The author's name, with nested operations below it"
          cellClass="cell name"
          sort="name"
          current={sort}
          onSort={props.onSort}
          onWidth={onWidth && ((wide) => onWidth("name", wide))}
        />
        {columns.map((column) => (
          <Heading
            key={column.key}
            title={column.title}
            hint={column.hint}
            sort={column.sort}
            cellClass={cellClass(column)}
            isNumber={column.isNumber}
            current={sort}
            onSort={props.onSort}
            onWidth={onWidth && ((wide) => onWidth(column.key, wide))}
            moving={moving(column.key)}
          />
        ))}
      </div>
      <div class="grid-body" role="rowgroup" style={{ height: isPrinting ? "auto" : `${rows.length * ROW_HEIGHT}px` }}>
        <div style={{ transform: isPrinting ? "none" : `translateY(${from * ROW_HEIGHT}px)` }} role="presentation">
          {rows.slice(from, to).map((row, index) => (
            <Line
              key={row.id}
              row={row}
              times={props.times.get(row.id) ?? 1}
              onOpen={props.onOpen}
              place={from + index}
              columns={columns}
              isSelected={row.id === selected}
              isTree={sort.key === "order"}
              isFolded={folded.has(row.id)}
              onSelect={select}
              onToggle={props.onToggle}
            />
          ))}
        </div>
        {rows.length === 0 && <p class="empty">No layer matches.</p>}
        {isPrinting && rows.length > PRINTED && <p class="empty">{rows.length - PRINTED} more rows are in the page itself.</p>}
      </div>
    </div>
  );
}

interface LineProps {
  row: Row;
  times: number;
  onOpen: (id: string) => void;
  place: number;
  columns: Column[];
  isSelected: boolean;
  isTree: boolean;
  isFolded: boolean;
  onSelect: (id: string | null) => void;
  onToggle: (id: string) => void;
}

/** A row. Rows that stay in view are not rendered again on scrolling. */
class Line extends Component<LineProps> {
  override shouldComponentUpdate(next: LineProps): boolean {
    const { row, times, place, columns, isSelected, isTree, isFolded } = this.props;
    return (
      row !== next.row ||
      times !== next.times ||
      place !== next.place ||
      columns !== next.columns ||
      isSelected !== next.isSelected ||
      isTree !== next.isTree ||
      isFolded !== next.isFolded
    );
  }

  override render({ row, times, onOpen, place, columns, isSelected, isTree, isFolded, onSelect, onToggle }: LineProps) {
    return (
      <div
        id={`row-${place}`}
        class={`grid-row${isSelected ? " selected" : ""}`}
        role="row"
        aria-rowindex={place + 2}
        aria-selected={isSelected}
        onClick={() => onSelect(isSelected ? null : row.id)}
      >
        <Name row={row} times={times} onOpen={onOpen} isTree={isTree} isFolded={isFolded} onToggle={onToggle} />
        {columns.map((column) => (
          <div key={column.key} role="gridcell" class={cellClass(column)}>
            {column.cell(row)}
          </div>
        ))}
      </div>
    );
  }
}

const cellClass = (column: Column): string => `cell${column.isNumber ? " number" : ""}${column.isNarrow ? " narrow" : ""}`;

function Name(props: Pick<LineProps, "row" | "times" | "onOpen" | "isTree" | "isFolded" | "onToggle">) {
  const { row, times } = props;
  const { rows } = useReport();
  const name = row.layer || row.name;
  // A name is cut in its middle: its last two parts stay whole.
  const shown = shortName(name, rows.shared);
  const tail = lastParts(shown);
  return (
    <div
      role="gridcell"
      class="cell name"
      style={{ paddingLeft: props.isTree ? `${10 + row.depth * 16}px` : undefined }}
      title={`${name} (${row.id})`}
    >
      {row.hasChildren && props.isTree && (
        <button
          type="button"
          class="fold"
          tabIndex={-1}
          aria-label={`${props.isFolded ? "Unfold" : "Fold"} ${name}`}
          aria-expanded={!props.isFolded}
          onClick={(event) => {
            event.stopPropagation();
            props.onToggle(row.id);
          }}
        >
          {props.isFolded ? "▸" : "▾"}
        </button>
      )}
      <span class="name-halves">
        <span class="ellipsis">{shown.slice(0, shown.length - tail.length)}</span>
        <span>{tail}</span>
      </span>
      {times > 1 && (
        <button
          type="button"
          class="chip chip-times"
          tabIndex={-1}
          title={`one of ${times} equal rows; show all`}
          onClick={(event) => {
            event.stopPropagation();
            props.onOpen(row.id);
          }}
        >
          × {times}
        </button>
      )}
      {row.layerType && <span class="chip">{row.layerType}</span>}
    </div>
  );
}

function Heading(props: {
  title: string;
  hint: string;
  sort?: SortKey | undefined;
  isNumber?: boolean | undefined;
  cellClass: string;
  current: Sort;
  onSort: (sort: Sort) => void;
  onWidth?: ((pixels: number | null) => void) | undefined;
  /** What makes the heading a column that can be dragged. */
  moving?: ComponentProps<"div"> | undefined;
}) {
  const { sort, current } = props;
  const isSorted = sort !== undefined && current.key === sort;
  const direction = isSorted ? (current.descending ? "descending" : "ascending") : "none";
  // Numbers start descending, names ascending; a third click restores the program's order.
  const press = () => {
    if (!sort) return;
    const start = props.isNumber ?? false;
    if (!isSorted) props.onSort({ key: sort, descending: start });
    else if (current.descending === start) props.onSort({ key: sort, descending: !start });
    else props.onSort({ key: "order", descending: false });
  };
  return (
    <div role="columnheader" class={props.cellClass} aria-sort={sort ? direction : undefined} title={props.hint} {...props.moving}>
      {sort ? (
        <button type="button" class="heading" onClick={press}>
          {props.title}
          <span class="arrow" aria-hidden="true">
            {isSorted ? (current.descending ? "↓" : "↑") : ""}
          </span>
        </button>
      ) : (
        props.title
      )}
      {props.onWidth && <Edge title={props.title} onWidth={props.onWidth} />}
    </div>
  );
}

/** True while the page is laid out for print. */
function usePrinting(): boolean {
  const [isPrinting, set] = useState(false);
  useEffect(() => onPrint(set), []);
  return isPrinting;
}
