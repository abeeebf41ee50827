import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { intervalReach, placeInterval, ratioText } from "../../data/comparison";
import type { Change } from "../../data/schema";
import { figure } from "../../format";
import { More } from "../../ui/more";
import { ScrollRegion } from "../../ui/scroll";

const LISTED = 15;

export interface ChangeRow {
  key: string;
  cells: ComponentChildren[];
  change: Change;
  /** Replaces the verdict. */
  remark?: string;
}

/** Figures before and after, with the interval of their ratio. Only the first rows are shown at first. */
export function ChangeTable(props: { label: string; heads: string[]; rows: ChangeRow[]; isInterval95?: boolean; isText?: boolean }) {
  const [isOpen, open] = useState(false);
  const hasIntervals = props.rows.some(({ change }) => change.low !== null && change.low !== change.high);
  const reach = intervalReach(props.rows.map(({ change }) => change));
  const rows = isOpen ? props.rows : props.rows.slice(0, LISTED);
  return (
    <>
      <ScrollRegion label={props.label}>
        <table class="plain">
          <thead>
            <tr>
              {props.heads.map((head) => (
                <th scope="col" key={head} class={head === "Name" ? "plain-text" : ""}>
                  {head}
                </th>
              ))}
              <th scope="col" class="number">
                Before
              </th>
              <th scope="col" class="number">
                After
              </th>
              <th scope="col" class="number">
                Change
              </th>
              <th scope="col" class="plain-text">
                Verdict
              </th>
              {hasIntervals && <th scope="col">{props.isInterval95 ? "95 % interval" : "Interval"}</th>}
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={row.key}>
                {row.cells.map((cell, index) =>
                  index === 0 ? (
                    <th scope="row" class={props.isText ? "label" : "label mono"} key={props.heads[index]}>
                      {cell}
                    </th>
                  ) : (
                    <td key={props.heads[index]}>{cell}</td>
                  ),
                )}
                <Cells change={row.change} remark={row.remark} reach={hasIntervals ? reach : null} />
              </tr>
            ))}
          </tbody>
        </table>
      </ScrollRegion>
      <More listed={LISTED} total={props.rows.length} isOpen={isOpen} open={open} />
    </>
  );
}

function Cells(props: { change: Change; remark?: string | undefined; reach: number | null }) {
  const { before, after, ratio, verdict, origin } = props.change;
  const said = props.remark ?? (ratio === null && verdict === "unclear" ? "" : verdict);
  return (
    <>
      <td class="number">{before === null ? "–" : figure(before, origin)}</td>
      <td class="number">{after === null ? "–" : figure(after, origin)}</td>
      <td class="number">{ratioText(ratio)}</td>
      <td class={`verdict verdict-${verdict.replace(" ", "-")}`}>{said}</td>
      {props.reach !== null && (
        <td>
          <Interval change={props.change} reach={props.reach} />
        </td>
      )}
    </>
  );
}

/** The interval of a ratio, drawn around no change, with a text alternative. */
export function Interval(props: { change: Pick<Change, "low" | "high" | "verdict">; reach: number }) {
  const { low, high } = props.change;
  if (low === null || high === null || low === high) return null;
  const [left, right] = placeInterval(low, high, props.reach);
  const words = `${ratioText(low)} … ${ratioText(high)}`;
  return (
    <span class="interval" title={words}>
      <span class="interval-track" aria-hidden="true">
        <span class="interval-zero" />
        <span
          class={`interval-bar verdict-${props.change.verdict.replace(" ", "-")}`}
          style={{ left: `${left}%`, width: `${right - left}%` }}
        />
      </span>
      <span class="interval-text">{words}</span>
    </span>
  );
}
