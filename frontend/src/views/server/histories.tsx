import { scaleLinear } from "d3-scale";
import { useState } from "preact/hooks";
import type { Entry, Figure, ServerForm } from "../../data/schema";
import { comparison, countTags, type History, histories, search } from "../../data/server";
import { changesOf } from "../../data/trend";
import { duration, plural, share } from "../../format";
import { OriginTag } from "../../ui/origin";
import { ScrollRegion } from "../../ui/scroll";
import { Section } from "../../ui/section";
import { type EntryActions, EntryRow } from "./entry";

/** All saved profiles by model, with the trend of their times; some can be searched for and compared. */
export function Histories(props: {
  entries: readonly Entry[];
  extensible: readonly string[];
  folder: string;
  onState: (state: ServerForm) => void;
}) {
  const [text, setText] = useState("");
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [problem, setProblem] = useState("");
  const shown = search(props.entries, text);
  const found = histories(shown);
  const broken = props.entries.filter((entry) => entry.problem);
  const compared = props.entries.filter((entry) => chosen.has(entry.id));
  const actions: EntryActions = {
    chosen,
    extensible: new Set(props.extensible),
    onChoose: (id, isChosen) => setChosen(new Set([...chosen].filter((one) => one !== id).concat(isChosen ? [id] : []))),
    onSearch: setText,
    onState: props.onState,
    onProblem: setProblem,
  };
  return (
    <Section
      id="profiles"
      title="Profiles"
      note={<span>in {props.folder}</span>}
      actions={
        compared.length > 1 ? (
          <a class="button" href={comparison(props.entries, chosen)}>
            Compare {plural(compared.length, "profile")}
          </a>
        ) : (
          props.entries.length > 1 && <span class="dim">check two to compare them</span>
        )
      }
    >
      {!props.entries.length && (
        <p class="dim">
          None yet. Profile a model above, or save a profile here: <code>coremlscope profile MODEL -o {props.folder}/name.json</code>
        </p>
      )}
      {props.entries.length > 1 && (
        <search class="filters" aria-label="Search profiles">
          <input
            type="search"
            placeholder="Search model, machine, tag, date"
            aria-label="Search profiles"
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
          />
          {countTags(props.entries).map(([tag, number]) => (
            <button key={tag} type="button" class="tag" aria-pressed={text === tag} onClick={() => setText(text === tag ? "" : tag)}>
              {tag} {number}
            </button>
          ))}
          {text && !shown.length && <span class="dim">no profile has these words</span>}
        </search>
      )}
      {problem && (
        <p class="banner" role="alert">
          {problem}
        </p>
      )}
      {found.map((history, index) => (
        <HistoryView key={history.key} history={history} isContinued={found[index - 1]?.origin === history.origin} actions={actions} />
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

/** The profiles of one model. The head of a table that continues the one before is for screen readers only. */
function HistoryView(props: { history: History; isContinued: boolean; actions: EntryActions }) {
  const { model, label, origin, entries } = props.history;
  const newestFirst = [...entries].reverse();
  const times = entries.map((entry) => entry.predict_s).filter((figure) => figure !== null);
  return (
    <article class={props.isContinued ? "history history-continued" : "history"}>
      <header>
        <h3>{model}</h3>
        {origin && <OriginTag origin={origin} on={label} />}
        <span class="dim">{origin === "measured" && change(times)}</span>
        <Trend entries={entries.filter((entry) => entry.predict_s !== null)} />
      </header>
      <ScrollRegion label={`Profiles of ${model}`}>
        <table class="plain numbers">
          <thead>
            <tr>
              <td />
              <th scope="col">made</th>
              <th scope="col">{origin === "measured" ? "prediction (median)" : "prediction"}</th>
              <th scope="col">{origin === "measured" ? "10th to 90th percentile" : "interval"}</th>
              <th scope="col">load</th>
              <th scope="col">predictions</th>
              <th scope="col">operations</th>
              <td />
            </tr>
          </thead>
          <tbody>
            {newestFirst.map((entry) => (
              <EntryRow key={entry.id} entry={entry} actions={props.actions} />
            ))}
          </tbody>
        </table>
      </ScrollRegion>
    </article>
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
function Trend(props: { entries: readonly Entry[] }) {
  const times = props.entries.map((entry) => entry.predict_s).filter((figure) => figure !== null);
  if (times.length < 2) return null;
  const points = times.map(({ value }, step) => ({ step, value }));
  const changes = changesOf(points, times[0]?.origin !== "measured").map(({ at, before, after }) => {
    const when = props.entries[at]?.made_at.slice(0, 10) || props.entries[at]?.id;
    const isFaster = after < before;
    return { at, isFaster, text: `${when}: ${share(Math.abs(after / before - 1))} ${isFaster ? "faster" : "slower"}` };
  });
  const y = scaleLinear(
    [Math.min(...times.map((time) => time.low)) * 0.98, Math.max(...times.map((time) => time.high)) * 1.02],
    [HEIGHT - EDGE, EDGE],
  );
  const x = scaleLinear([0, times.length - 1], [EDGE, WIDTH - EDGE]);
  const line = times.map((time, index) => `${index ? "L" : "M"}${x(index).toFixed(1)},${y(time.value).toFixed(1)}`).join("");
  const bars = times.map((time, index) => `M${x(index).toFixed(1)},${y(time.low).toFixed(1)}V${y(time.high).toFixed(1)}`).join("");
  return (
    <>
      <svg
        class="trend"
        width={WIDTH}
        height={HEIGHT}
        role="img"
        aria-label={[
          `Times of ${times.length} profiles: ${times.map((time) => duration(time.value)).join(", ")}`,
          ...changes.map(({ text }) => text),
        ].join("; ")}
      >
        <path class="trend-range" d={bars} />
        <path class="trend-line" d={line} />
        {changes.map(({ at, isFaster, text }) => (
          <g key={at} class={isFaster ? "trend-faster" : "trend-slower"}>
            <title>{text}</title>
            <line x1={x(at)} x2={x(at)} y1={0} y2={HEIGHT} />
            <circle cx={x(at)} cy={y(times[at]?.value ?? 0)} r={4} />
          </g>
        ))}
      </svg>
      {changes.length > 0 && <p class="time-changes">{changes.map(({ text }) => text).join("; ")}</p>}
    </>
  );
}
