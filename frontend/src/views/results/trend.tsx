import { scaleLinear } from "d3-scale";
import { useMemo, useState } from "preact/hooks";
import { columnNamed, figuresOf, headingOf, labelOf, mainTime, shownNumber } from "../../data/results";
import type { ResultColumn, ResultsForm } from "../../data/schema";
import { type Change, type Series, seriesOf, stepColumns, stepsOf } from "../../data/trend";
import { moment, plural } from "../../format";
import { Menu } from "../../ui/menu";
import { OriginTag } from "../../ui/origin";
import { ScrollRegion } from "../../ui/scroll";
import { Section } from "../../ui/section";
import { useWidth } from "../../ui/width";

/** A figure of one result over commits, labels or dates, and the changes of all results. */
export function Trend(props: { table: ResultsForm; rows: readonly number[] }) {
  const { table, rows } = props;
  const [columns, figures] = [stepColumns(table), figuresOf(table)];
  const [byName, chooseBy] = useState(columns[0]?.name ?? "");
  const [figureName, chooseFigure] = useState((mainTime(table) ?? figures[0])?.name ?? "");
  const [wanted, choose] = useState("");
  const [by, figure] = [columnNamed(table, byName), columnNamed(table, figureName)];
  const found = useMemo(() => (by && figure ? seriesOf(table, rows, figure, by) : []), [table, rows, figure, by]);
  if (!by || !figure) return null;
  const steps = stepsOf(table, by);
  const shown = found.find((series) => series.name === wanted) ?? found[0];
  const names = (list: readonly ResultColumn[]) => list.map((column): [string, string] => [column.name, labelOf(column)]);
  return (
    <Section id="trend" title="Trend" note={figure.origin && <OriginTag origin={figure.origin} />}>
      <div class="filters">
        <Menu label="Figure" isNeeded value={figureName} onChange={chooseFigure} options={names(figures)} />
        {columns.length > 1 && <Menu label="over" isNeeded value={byName} onChange={chooseBy} options={names(columns)} />}
        {shown && (
          <Menu label="of" isNeeded value={shown.name} onChange={choose} options={found.map((series) => [series.name, series.name])} />
        )}
      </div>
      {shown ? (
        <Chart series={shown} steps={steps} figure={figure} />
      ) : (
        <p class="dim">No result has a figure at two of the steps of {headingOf(by)}.</p>
      )}
      <Changes found={found} steps={steps} figure={figure} onChoose={choose} />
      <p class="dim caption">
        Changes are steps of the level of at least 2 %, for measured figures beyond the noise of their neighbours. Where a step has several
        results their median is shown.
      </p>
    </Section>
  );
}

const HEIGHT = 220;
const EDGE = { left: 76, right: 24, top: 14, bottom: 30 };

function Chart(props: { series: Series; steps: readonly string[]; figure: ResultColumn }) {
  const { series, steps, figure } = props;
  const [ref, width] = useWidth<HTMLDivElement>();
  const x = scaleLinear([0, Math.max(steps.length - 1, 1)], [EDGE.left, width - EDGE.right]);
  const y = scaleLinear([0, Math.max(...series.points.map(({ value }) => value)) * 1.08 || 1], [HEIGHT - EDGE.bottom, EDGE.top]);
  const every = Math.max(1, Math.ceil(steps.length / Math.max(1, Math.floor((width - EDGE.left) / 130))));
  return (
    <div ref={ref}>
      <svg
        width={width}
        height={HEIGHT}
        class="variants-chart"
        role="img"
        aria-label={`${series.name}, ${plural(series.changes.length, "change")}`}
      >
        {y.ticks(4).map((tick) => (
          <g key={tick}>
            <line class="grid" x1={EDGE.left} x2={width - EDGE.right} y1={y(tick)} y2={y(tick)} />
            <text class="tick" x={EDGE.left - 6} y={y(tick)} dy="0.32em" text-anchor="end">
              {tick ? shownNumber(figure, tick) : "0"}
            </text>
          </g>
        ))}
        {steps.map(
          (step, index) =>
            index % every === 0 && (
              <text key={step} class="tick" x={x(index)} y={HEIGHT - 10} text-anchor={index ? "middle" : "start"}>
                {shortStep(step)}
              </text>
            ),
        )}
        {series.changes.map((change) => (
          <line
            key={change.at}
            class="trend-change"
            x1={x(change.step - 0.5)}
            x2={x(change.step - 0.5)}
            y1={EDGE.top}
            y2={HEIGHT - EDGE.bottom}
          >
            <title>{changeText(change, steps, figure)}</title>
          </line>
        ))}
        <polyline class="roof" points={series.points.map((point) => `${x(point.step)},${y(point.value)}`).join(" ")} />
        {series.points.map((point) => (
          <circle
            key={point.step}
            class={`point fill-${figure.origin === "measured" ? "measured" : "neural_engine"}`}
            cx={x(point.step)}
            cy={y(point.value)}
            r={4}
          >
            <title>{`${shortStep(steps[point.step] ?? "")}: ${shownNumber(figure, point.value)}, ${plural(point.rows.length, "result")}`}</title>
          </circle>
        ))}
      </svg>
    </div>
  );
}

function Changes(props: { found: readonly Series[]; steps: readonly string[]; figure: ResultColumn; onChoose: (name: string) => void }) {
  const changed = props.found.filter((series) => series.changes.length > 0);
  if (!changed.length) return <p class="dim">No changes.</p>;
  return (
    <ScrollRegion label="Changes">
      <table class="plain">
        <thead>
          <tr>
            <th scope="col">result</th>
            <th scope="col">changes, by the first step with the new level</th>
          </tr>
        </thead>
        <tbody>
          {changed.slice(0, 50).map((series) => (
            <tr key={series.name}>
              <th scope="row" class="label">
                <button type="button" class="link" onClick={() => props.onChoose(series.name)}>
                  {series.name}
                </button>
              </th>
              <td>
                {series.changes.map((change) => (
                  <div key={change.at}>{changeText(change, props.steps, props.figure)}</div>
                ))}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {changed.length > 50 && <p class="dim">{plural(changed.length - 50, "more result")} changed; filter to see others.</p>}
    </ScrollRegion>
  );
}

const shortStep = (step: string): string => (moment(step) === step && step.length > 16 ? `${step.slice(0, 12)}…` : moment(step));

function changeText(change: Change, steps: readonly string[], figure: ResultColumn): string {
  const percent = (change.after / change.before - 1) * 100;
  const by = `${percent < 0 ? "−" : "+"}${Math.abs(percent).toFixed(1)} %`;
  return `${shortStep(steps[change.step] ?? "")}: ${shownNumber(figure, change.before)} → ${shownNumber(figure, change.after)} (${by})`;
}
