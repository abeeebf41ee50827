import { useState } from "preact/hooks";
import { bestOf } from "../../data/frontier";
import {
  columnNamed,
  costsOf,
  headingOf,
  isOwn,
  labelOf,
  mainTime,
  numberOf,
  PLACE,
  placesOf,
  reportOf,
  rowName,
  shownNumber,
  timesOf,
} from "../../data/results";
import type { ResultColumn, ResultsForm } from "../../data/schema";
import { Menu } from "../../ui/menu";
import { OriginTag } from "../../ui/origin";
import { Section } from "../../ui/section";
import { type Mark, Scatter } from "../scatter";

/** Columns that are shown against time at first, where the user has no numbers. */
const FIRST = ["parameters", "size_bytes", "flops"];

/** The time on a device against another number; the line joins the results that no other one beats. */
export function Pareto(props: { table: ResultsForm; rows: readonly number[] }) {
  const { table, rows } = props;
  const [times, costs] = [timesOf(table), costsOf(table)];
  const [timeName, chooseTime] = useState(mainTime(table)?.name ?? "");
  const [costName, chooseCost] = useState((costs.find(isOwn) ?? costs.find(({ name }) => FIRST.includes(name)) ?? costs[0])?.name ?? "");
  const [turned, turn] = useState<Record<string, boolean>>({});
  const [wanted, choosePlace] = useState("");
  const [time, cost] = [columnNamed(table, timeName), columnNamed(table, costName)];
  if (!time || !cost) return null;
  const known = rows.filter((row) => numberOf(time, row) !== null && numberOf(cost, row) !== null);
  const places = placesOf(table, known);
  const place = places.has(wanted) ? wanted : ([...places.keys()][0] ?? "");
  const isMore = turned[costName] ?? isOwn(cost);
  const marks = marksOf(table, places.get(place) ?? [], time, cost, isMore);
  const names = (columns: readonly ResultColumn[]): [string, string][] => columns.map((column) => [column.name, labelOf(column)]);
  return (
    <Section id="pareto" title="Pareto" note={time.origin && <OriginTag origin={time.origin} on={place || undefined} />}>
      <div class="filters">
        {times.length > 1 && <Menu label="Time" isNeeded value={timeName} onChange={chooseTime} options={names(times)} />}
        <Menu label="against" isNeeded value={costName} onChange={chooseCost} options={names(costs)} />
        {places.size > 1 && (
          <Menu label="on" isNeeded value={place} onChange={choosePlace} options={[...places.keys()].map((one) => [one, one])} />
        )}
        <button type="button" class="quiet" onClick={() => turn({ ...turned, [costName]: !isMore })}>
          {isMore ? "Higher" : "Lower"} {headingOf(cost)} is better
        </button>
      </div>
      {marks.length > 0 ? (
        <Scatter
          marks={marks}
          noun="result"
          isFromZero
          formatX={(value) => shownNumber(cost, value)}
          formatY={(value) => (value ? shownNumber(time, value) : "0")}
        />
      ) : (
        <p class="dim">No result has both numbers.</p>
      )}
      <p class="dim caption">
        Vertical: {headingOf(time)}; horizontal: {headingOf(cost)}. The line joins the results that no other surpasses in both.
      </p>
    </Section>
  );
}

function marksOf(table: ResultsForm, rows: readonly number[], time: ResultColumn, cost: ResultColumn, isMore: boolean): Mark[] {
  const seconds = rows.map((row) => numberOf(time, row) ?? 0);
  const numbers = rows.map((row) => numberOf(cost, row) ?? 0);
  const best = bestOf(
    seconds,
    numbers.map((value) => (isMore ? value : -value)),
  );
  return rows.map((row, index) => {
    const [x, y] = [numbers[index] ?? 0, seconds[index] ?? 0];
    const name = rowName(table, row, PLACE);
    const title = `${name}: ${shownNumber(time, y)}, ${headingOf(cost)} ${shownNumber(cost, x)}`;
    return { id: row, name, x, y, isBest: best.has(index), title, href: reportOf(table, row) };
  });
}
