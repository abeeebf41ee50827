import { useMemo } from "preact/hooks";
import { type Spending, spending } from "../../data/answers";
import { shortName } from "../../data/names";
import type { TimePart } from "../../data/schema";
import { duration, percent, plural, share } from "../../format";
import { useAnswer, useReport } from "../../report";
import { OriginTag } from "../../ui/origin";
import { Card } from "./card";

/** What the time is spent on: all parts of the estimate, else the most expensive measured groups of operations. */
export function TimeSpent() {
  const { table, groups } = useReport();
  const parts = useAnswer()?.time ?? [];
  const found = useMemo(() => spending({ table, groups }), [table, groups]);
  const origin = parts.length > 0 ? "estimated" : found ? "measured" : null;
  return (
    <Card id="time" question="Where does the time go?" tags={origin && <OriginTag origin={origin} />}>
      {parts.length > 0 && <Parts parts={parts} />}
      {parts.length === 0 && found && <Groups found={found} />}
      {!origin && <p class="answer-text">Not known: operations have no times.</p>}
    </Card>
  );
}

/** The parts of the time; their shares add up to the whole. */
function Parts(props: { parts: readonly TimePart[] }) {
  const { showOp } = useReport();
  const { latency } = useAnswer() ?? {};
  return (
    <ol class="spending" aria-label="The parts of the time">
      {props.parts.map(({ part, share: held, count, op }) => (
        <li key={part}>
          {op ? (
            <button type="button" class="link" title={plural(count, "kernel")} onClick={() => showOp(op)}>
              {part}
            </button>
          ) : (
            <span>{part}</span>
          )}
          <span class="spending-type" />
          <span class="spending-bar">
            <span class="fill-measured" style={{ width: `${held * 100}%` }} />
          </span>
          <span class="spending-time">
            {latency && duration(held * latency.value)} <span class="faint">{percent(held)}</span>
          </span>
        </li>
      ))}
    </ol>
  );
}

/** The most expensive groups of operations. */
function Groups(props: { found: Spending }) {
  const { dearest, hasShares, totalSeconds } = props.found;
  const { showOp, measurement, rows } = useReport();
  const isSlowed = measurement?.findings.some((one) => one.id === "profiler-overhead");
  const most = Math.max(...dearest.map((one) => one.seconds));
  return (
    <>
      <ol class="spending" aria-label="The most expensive groups of operations">
        {dearest.map((one) => (
          <li key={one.ids[0]}>
            <button
              type="button"
              class="link"
              title={`${one.name || one.label}, ${one.label}: ${plural(one.ids.length, "operation")}`}
              onClick={() => showOp(one.ids[0] ?? "")}
            >
              {one.times > 1 && `${one.times} × `}
              {shortName(one.name, rows.shared) || one.label}
            </button>
            <span class="spending-type">{one.label}</span>
            <span class="spending-bar">
              <span class="fill-measured" style={{ width: `${(one.seconds / most) * 100}%` }} />
            </span>
            <span class="spending-time">
              {duration(one.seconds)} {hasShares && <span class="faint">{share(one.seconds / totalSeconds)}</span>}
            </span>
          </li>
        ))}
      </ol>
      {isSlowed && <p class="answer-text">Longer than in predictions because of the engine's profiler.</p>}
    </>
  );
}
