import { scaleLinear } from "d3-scale";
import type { Entry, Figure } from "../../data/schema";
import { type History, histories } from "../../data/server";
import { duration, plural, share } from "../../format";
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
        <HistoryView key={history.key} history={history} />
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
  const { model, label, origin, entries } = props.history;
  const newestFirst = [...entries].reverse();
  const times = entries.map((entry) => entry.predict_s).filter((figure) => figure !== null);
  return (
    <article class="history">
      <header>
        <h3>{model}</h3>
        {origin && <OriginTag origin={origin} on={label} />}
        <span class="dim">{origin === "measured" && change(times)}</span>
        <Trend times={times} />
      </header>
      <ScrollRegion label={`Profiles of ${model}`}>
        <table class="plain numbers">
          <thead>
            <tr>
              <th scope="col">made</th>
              <th scope="col">{origin === "measured" ? "prediction (median)" : origin === "planned" ? "planned cost" : "prediction"}</th>
              <th scope="col">{origin === "measured" ? "10th to 90th percentile" : "interval"}</th>
              <th scope="col">load</th>
              <th scope="col">predictions</th>
              <th scope="col">operations</th>
            </tr>
          </thead>
          <tbody>
            {newestFirst.map((entry) => (
              <EntryRow key={entry.id} entry={entry} />
            ))}
          </tbody>
        </table>
      </ScrollRegion>
    </article>
  );
}

function EntryRow(props: { entry: Entry }) {
  const { entry } = props;
  const time = entry.predict_s;
  const hasInterval = time !== null && time.low !== time.high;
  return (
    <tr>
      <th scope="row">
        <a href={`profiles/${encodeURIComponent(entry.id)}`} title={`${entry.id}.json`}>
          {entry.made_at ? when(entry.made_at) : entry.id}
        </a>
        {entry.profiles > 1 && <span class="faint"> and {plural(entry.profiles - 1, "more profile")}</span>}
      </th>
      <td class="strong">{time ? duration(time.value) : "–"}</td>
      <td>{hasInterval ? `${duration(time.low)} … ${duration(time.high)}` : "–"}</td>
      <td>{entry.load_s === null ? "–" : duration(entry.load_s)}</td>
      <td>{entry.iterations || "–"}</td>
      <td>{entry.operations || "–"}</td>
    </tr>
  );
}

/** The last time compared with the previous one: a change only where their 10th to 90th percentiles do not overlap. */
function change(times: readonly Figure[]): string {
  const [before, last] = [times.at(-2), times.at(-1)];
  if (!before || !last) return "";
  if (last.low <= before.high && before.low <= last.high) return "no clear change from the previous one";
  const ratio = last.value / before.value - 1;
  return `${share(Math.abs(ratio))} ${ratio < 0 ? "faster" : "slower"} than the previous one`;
}

const [WIDTH, HEIGHT, EDGE] = [220, 44, 5];

/** Times in the order in which the profiles were made, with their intervals. */
function Trend(props: { times: readonly Figure[] }) {
  const { times } = props;
  if (times.length < 2) return null;
  const y = scaleLinear(
    [Math.min(...times.map((time) => time.low)) * 0.98, Math.max(...times.map((time) => time.high)) * 1.02],
    [HEIGHT - EDGE, EDGE],
  );
  const x = scaleLinear([0, times.length - 1], [EDGE, WIDTH - EDGE]);
  const line = times.map((time, index) => `${index ? "L" : "M"}${x(index).toFixed(1)},${y(time.value).toFixed(1)}`).join("");
  const bars = times.map((time, index) => `M${x(index).toFixed(1)},${y(time.low).toFixed(1)}V${y(time.high).toFixed(1)}`).join("");
  return (
    <svg
      class="trend"
      width={WIDTH}
      height={HEIGHT}
      role="img"
      aria-label={`Times of ${times.length} profiles: ${times.map((time) => duration(time.value)).join(", ")}`}
    >
      <path class="trend-range" d={bars} />
      <path class="trend-line" d={line} />
    </svg>
  );
}

const when = (iso: string): string => new Date(iso).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
