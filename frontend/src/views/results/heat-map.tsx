import { useMemo, useState } from "preact/hooks";
import { type HeatCell, heatLines } from "../../data/heat";
import { columnNamed, figuresOf, labelOf, mainTime, reportOf, shownNumber } from "../../data/results";
import type { ResultColumn, ResultsForm } from "../../data/schema";
import { plural } from "../../format";
import { Choice } from "../../ui/choice";
import { Menu } from "../../ui/menu";
import { OriginTag } from "../../ui/origin";
import { ScrollRegion } from "../../ui/scroll";
import { Section } from "../../ui/section";

/** Models that are shown at first, and that each press of the button adds. */
const STEP = 100;

/** A figure of all models on all devices, coloured by its size. */
export function HeatMap(props: { table: ResultsForm; rows: readonly number[] }) {
  const { table, rows } = props;
  const figures = figuresOf(table);
  const [name, choose] = useState((mainTime(table) ?? figures[0])?.name ?? "");
  const [scope, setScope] = useState<"all" | "model">("all");
  const [most, setMost] = useState(STEP);
  const column = columnNamed(table, name);
  const [places, lines] = useMemo(
    () => (column ? heatLines(table, rows, column, scope === "model") : [[], []]),
    [table, rows, column, scope],
  );
  if (!column) return null;
  return (
    <Section
      id="heat-map"
      title="Models and devices"
      note={column.origin && <OriginTag origin={column.origin} />}
      actions={
        <Choice
          label="Colours compare"
          options={[
            ["all", "All"],
            ["model", "Each model"],
          ]}
          value={scope}
          onChange={setScope}
        />
      }
    >
      <div class="filters">
        <Menu label="Figure" isNeeded value={name} onChange={choose} options={figures.map((one) => [one.name, labelOf(one)])} />
      </div>
      <ScrollRegion label="Figures by model and device">
        <table class="plain heat-map">
          <thead>
            <tr>
              <th scope="col">model</th>
              {places.map((place) => (
                <th key={place} scope="col" class="number">
                  {place}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {lines.slice(0, most).map((line) => (
              <tr key={line.name}>
                <th scope="row" class="label">
                  {line.name}
                </th>
                {line.cells.map((cell, index) => (
                  <Figure key={places[index]} table={table} column={column} cell={cell} />
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </ScrollRegion>
      {lines.length > most && (
        <p class="more">
          <button type="button" class="quiet" onClick={() => setMost(most + STEP)}>
            Show {Math.min(STEP, lines.length - most)} more of {plural(lines.length, "model")}
          </button>
        </p>
      )}
      <p class="dim caption">
        The stronger the colour, the larger the figure, {scope === "all" ? "among all figures" : "among the figures of the model"}. Of
        several results for one place the newest is shown.
      </p>
    </Section>
  );
}

function Figure(props: { table: ResultsForm; column: ResultColumn; cell: HeatCell | null }) {
  const { table, column, cell } = props;
  if (!cell) return <td class="number faint">–</td>;
  const text = shownNumber(column, cell.value);
  const report = reportOf(table, cell.row);
  return (
    <td
      class={`number heat heat-${column.origin ?? "declared"}`}
      style={{ "--heat": `${(cell.heat * 100).toFixed(0)}%` }}
      data-value={cell.value}
      title={`${column.name} ${cell.value}${cell.count > 1 ? `, the newest of ${plural(cell.count, "result")}` : ""}`}
    >
      {report ? <a href={report}>{text}</a> : text}
    </td>
  );
}
