import { scaleLinear } from "d3-scale";
import type { Entry } from "../../data/schema";
import { type History, histories } from "../../data/server";
import { duration, share } from "../../format";
import { OriginTag } from "../../ui/origin";
import { ScrollRegion } from "../../ui/scroll";
import { Section } from "../../ui/section";

/** All saved profiles by model, with the trend of their times. */
export function Histories(props: { entries: readonly Entry[]; folder: string }) {
  const found = histories(props.entries);
  const broken = props.entries.filter((entry) => entry.problem);
  return (
    <Section id="profiles" title="Profiles" note={<span>in {props.folder}</span>}>
      {!props.entries.length && (
        <p class="dim">
          None yet. Profile a model above, or save a profile here: <code>coremlscope profile MODEL -o {props.folder}/name.json</code>
        </p>
      )}
      {found.map((history) => (
        <HistoryView key={`${history.model}\n${history.host}`} history={history} />
      ))}
      {broken.length > 0 && (
        <details class="broken">
          <summary>{broken.length === 1 ? "1 file is not a valid profile" : `${broken.length} files are not valid profiles`}</summary>
          <ul>
            {broken.map((entry) => (
              <li key={entry.id}>
                <code>{entry.id}.json</code> {entry.problem}
              </li>
            ))}
          </ul>
        </details>
      )}
    </Section>
  );
}

function HistoryView(props: { history: History }) {
  const { model, host, entries } = props.history;
  const newestFirst = [...entries].reverse();
  return (
    <article class="history">
      <header>
        <h3>{model}</h3>
        <OriginTag origin="measured" on={host} />
        <span class="dim">{change(entries)}</span>
        <Trend entries={entries} />
      </header>
      <ScrollRegion label={`Profiles of ${model}`}>
        <table class="plain numbers">
          <thead>
            <tr>
              <th scope="col">saved</th>
              <th scope="col">prediction (median)</th>
              <th scope="col">10th to 90th percentile</th>
              <th scope="col">load</th>
              <th scope="col">predictions</th>
              <th scope="col">operations</th>
            </tr>
          </thead>
          <tbody>
            {newestFirst.map((entry) => (
              <tr key={entry.id}>
                <th scope="row">
                  <a href={`profiles/${encodeURIComponent(entry.id)}`}>{when(entry.saved)}</a>
                </th>
                <td class="strong">{duration(entry.median_s)}</td>
                <td>
                  {duration(entry.low_s)} … {duration(entry.high_s)}
                </td>
                <td>{duration(entry.load_s)}</td>
                <td>{entry.iterations}</td>
                <td>{entry.operations}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </ScrollRegion>
    </article>
  );
}

/** The last profile compared with the previous one: a change only where their 10th to 90th percentiles do not overlap. */
function change(entries: readonly Entry[]): string {
  const [before, last] = [entries.at(-2), entries.at(-1)];
  if (!before || !last) return "";
  if (last.low_s <= before.high_s && before.low_s <= last.high_s) return "no clear change from the previous one";
  const ratio = last.median_s / before.median_s - 1;
  return `${share(Math.abs(ratio))} ${ratio < 0 ? "faster" : "slower"} than the previous one`;
}

const [WIDTH, HEIGHT, EDGE] = [220, 44, 5];

/** Medians in the order of saving, with the 10th to 90th percentiles. */
function Trend(props: { entries: readonly Entry[] }) {
  const { entries } = props;
  if (entries.length < 2) return null;
  const y = scaleLinear(
    [Math.min(...entries.map((e) => e.low_s)) * 0.98, Math.max(...entries.map((e) => e.high_s)) * 1.02],
    [HEIGHT - EDGE, EDGE],
  );
  const x = scaleLinear([0, entries.length - 1], [EDGE, WIDTH - EDGE]);
  const line = entries.map((entry, index) => `${index ? "L" : "M"}${x(index).toFixed(1)},${y(entry.median_s).toFixed(1)}`).join("");
  const bars = entries.map((entry, index) => `M${x(index).toFixed(1)},${y(entry.low_s).toFixed(1)}V${y(entry.high_s).toFixed(1)}`).join("");
  return (
    <svg
      class="trend"
      width={WIDTH}
      height={HEIGHT}
      role="img"
      aria-label={`Medians of ${entries.length} profiles: ${entries.map((entry) => duration(entry.median_s)).join(", ")}`}
    >
      <path class="trend-range" d={bars} />
      <path class="trend-line" d={line} />
    </svg>
  );
}

const when = (seconds: number): string => new Date(seconds * 1000).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
