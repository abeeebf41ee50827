import { useMemo, useState } from "preact/hooks";
import type { Cell } from "../../data/csv";
import {
  columnNamed,
  firstColumns,
  firstSort,
  headingOf,
  intervalOf,
  isNumeric,
  mainTime,
  numberOf,
  reportOf,
  rowName,
  type Sort,
  shownNumber,
  shownText,
  sorted,
} from "../../data/results";
import type { ResultColumn, ResultsForm } from "../../data/schema";
import { plural } from "../../format";
import { FileTitle } from "../../ui/file";
import { OriginTag } from "../../ui/origin";
import { ScrollRegion } from "../../ui/scroll";
import { Section } from "../../ui/section";
import { useWidth } from "../../ui/width";

/** Rows that are shown at first, and that each press of the button adds. */
const STEP = 100;
/** Narrower tables, in CSS pixels, have the texts of a row below its name, and one figure. */
const COMPACT = 560;

/** Results, one row each: a heading sorts by its column, and a pinned row is what the others are compared with. */
export function Leaderboard(props: { table: ResultsForm; rows: readonly number[] }) {
  const { table, rows } = props;
  const [names, setNames] = useState(() => firstColumns(table));
  const [sort, setSort] = useState<Sort>(() => firstSort(table));
  const [pinned, setPinned] = useState<number | null>(null);
  const [most, setMost] = useState(STEP);
  const order = useMemo(() => sorted(table, rows, sort), [table, rows, sort]);
  const [ref, width] = useWidth<HTMLDivElement>(1000);
  const chosen = names.flatMap((name) => columnNamed(table, name) ?? []);
  const compact = width < COMPACT ? compactColumns(table, chosen, sort) : null;
  const columns = compact?.columns ?? chosen;
  const shown = order.slice(0, most);
  const listed = pinned === null ? shown : [pinned, ...shown.filter((row) => row !== pinned)];
  const places = useMemo(() => new Map(order.map((row, index) => [row, index + 1])), [order]);
  const pin = (row: number) => setPinned((old) => (old === row ? null : row));
  const press = (name: string) => setSort((old) => ({ name, descending: old?.name === name && !old.descending }));
  const cells = (): Cell[][] => [chosen.map((column) => column.name), ...order.map((row) => chosen.map((column) => column.values[row]))];
  return (
    <Section id="leaderboard" title="Leaderboard" cells={cells} actions={<Columns table={table} names={names} onChange={setNames} />}>
      <div ref={ref}>
        <ScrollRegion label="Results">
          <table class={`plain overview results${compact ? " compact" : ""}`}>
            <thead>
              <tr>
                <td />
                {columns.map((column) => (
                  <Heading key={column.name} column={column} sort={sort} onPress={press} />
                ))}
              </tr>
            </thead>
            <tbody>
              {listed.map((row) => (
                <tr key={row} class={row === pinned ? "pinned" : ""}>
                  <Pin place={places.get(row)} name={rowName(table, row)} isPinned={row === pinned} onPress={() => pin(row)} />
                  {columns.map((column) =>
                    isNumeric(column) ? (
                      <Figure key={column.name} table={table} column={column} row={row} pinned={pinned} />
                    ) : (
                      <Text key={column.name} table={table} column={column} row={row} below={compact?.below} />
                    ),
                  )}
                </tr>
              ))}
            </tbody>
          </table>
        </ScrollRegion>
      </div>
      {order.length > most && (
        <p class="more">
          <button type="button" class="quiet" onClick={() => setMost(most + STEP)}>
            Show {Math.min(STEP, order.length - most)} more of {plural(order.length, "result")}
          </button>
        </p>
      )}
      <p class="dim caption">
        A number at the left pins its row as the baseline: below each figure is then its ratio to the baseline's.
        {columns.some((column) => column.origin === "estimated") && " Below estimates: the interval that holds 80 % of the cases."}
        {compact && " A wider screen shows all columns."}
        {columnNamed(table, "basis") && " * extrapolated from the chip's specification."}
      </p>
    </Section>
  );
}

/** What a narrow table shows: the names of rows, the texts below them, and the figure that sorts; null where rows have no name. */
function compactColumns(table: ResultsForm, chosen: readonly ResultColumn[], sort: Sort) {
  const texts = chosen.filter((column) => !isNumeric(column));
  const name = texts.find((column) => column.name === "model") ?? texts[0];
  if (!name) return null;
  const figures = chosen.filter(isNumeric);
  const figure = figures.find((column) => column.name === sort?.name) ?? figures.find((column) => column === mainTime(table)) ?? figures[0];
  return { columns: figure ? [name, figure] : [name], below: texts.filter((column) => column !== name) };
}

/** The place of a row, which pins it as the baseline; a baseline that the filter leaves out has none. */
function Pin(props: { place: number | undefined; name: string; isPinned: boolean; onPress: () => void }) {
  const text = props.isPinned ? "baseline" : String(props.place ?? "–");
  return (
    <td>
      <button
        type="button"
        class="pin"
        aria-pressed={props.isPinned}
        aria-label={`${text}: compare others with ${props.name}`}
        title={props.isPinned ? "Unpin the baseline" : "Pin as the baseline"}
        onClick={props.onPress}
      >
        {text}
      </button>
    </td>
  );
}

function Heading(props: { column: ResultColumn; sort: Sort; onPress: (name: string) => void }) {
  const { column, sort } = props;
  const isSorted = sort?.name === column.name;
  return (
    <th
      scope="col"
      class={isNumeric(column) ? "number" : ""}
      aria-sort={isSorted ? (sort.descending ? "descending" : "ascending") : "none"}
      title={[column.name, column.meaning].filter(Boolean).join(": ")}
    >
      <button type="button" class="heading" onClick={() => props.onPress(column.name)}>
        {headingOf(column)}
        <span class="arrow" aria-hidden="true">
          {isSorted ? (sort.descending ? "↓" : "↑") : ""}
        </span>
      </button>
      {column.origin && (
        <div>
          <OriginTag origin={column.origin} />
        </div>
      )}
    </th>
  );
}

function Text(props: { table: ResultsForm; column: ResultColumn; row: number; below: readonly ResultColumn[] | undefined }) {
  const { table, column, row } = props;
  const text = shownText(column, row);
  const report = column.name === "model" || column.name === "report" ? reportOf(table, row) : null;
  const title = String(column.values[row] ?? "");
  const name = column.name === "model" ? <FileTitle name={text} /> : text;
  const shown = report ? <a href={report}>{name}</a> : name;
  if (column.name !== "model" && !props.below) return <td title={title}>{shown}</td>;
  const below = (props.below ?? []).map((one) => shownText(one, row)).filter(Boolean);
  return (
    <th scope="row" class="label" title={title}>
      {shown}
      {below.length > 0 && <div class="below">{below.join(" · ")}</div>}
    </th>
  );
}

function Figure(props: { table: ResultsForm; column: ResultColumn; row: number; pinned: number | null }) {
  const { table, column, row, pinned } = props;
  const value = numberOf(column, row);
  if (value === null) return <td class="number faint">–</td>;
  const base = pinned === null || pinned === row ? null : numberOf(column, pinned);
  const interval = base === null ? intervalOf(table, column, row) : null;
  const isExtrapolated = column.name === "estimated_s" && columnNamed(table, "basis")?.values[row] === "extrapolated";
  return (
    <td class="number" data-value={value}>
      {shownNumber(column, value)}
      {isExtrapolated && " *"}
      {base ? <div class="faint">× {Number((value / base).toPrecision(3))}</div> : null}
      {interval && (
        <div class="faint whole">
          {shownNumber(column, interval[0])} – {shownNumber(column, interval[1])}
        </div>
      )}
    </td>
  );
}

function Columns(props: { table: ResultsForm; names: readonly string[]; onChange: (names: string[]) => void }) {
  const { table, names, onChange } = props;
  return (
    <details class="column-menu results-columns">
      <summary class="quiet">Columns</summary>
      <div>
        {table.columns.map(({ name, meaning }) => (
          <label key={name} title={meaning}>
            <input
              type="checkbox"
              checked={names.includes(name)}
              onChange={() => onChange(names.includes(name) ? names.filter((one) => one !== name) : [...names, name])}
            />{" "}
            {name}
          </label>
        ))}
      </div>
    </details>
  );
}
