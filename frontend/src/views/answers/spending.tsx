import { useMemo } from "preact/hooks";
import { type Spending, spending } from "../../data/answers";
import { shortName } from "../../data/names";
import { BOUND_WORDS } from "../../data/words";
import { duration, percent, plural, share } from "../../format";
import { useAnswer, useReport } from "../../report";
import { OriginTag } from "../../ui/origin";
import { Card } from "./card";

/** Smaller parts of the time are not named. */
const LEAST = 0.01;
/** Wider parts of the bar have room for their names. */
const ROOM = 0.1;

/** What the time is spent on, and the most expensive groups of operations. */
export function TimeSpent() {
  const { table, kernels, estimate, groups } = useReport();
  const answer = useAnswer();
  const found = useMemo(() => spending({ table, kernels, estimate, groups }), [table, kernels, estimate, groups]);
  const bound = estimate && `waits for ${BOUND_WORDS[estimate.bound]}`;
  const waits = answer ? listed(answer.waits) : bound;
  const blocks = answer?.blocks;
  return (
    <Card id="time" question="Where does the time go?" tags={found && <OriginTag origin={found.origin} />}>
      {answer && answer.kinds.length > 0 && <KindBar kinds={answer.kinds} />}
      {found ? <Groups found={found} /> : <p class="answer-text">Not known: operations have no times.</p>}
      {blocks && (
        <p class="answer-text">
          {blocks.times} equal blocks are {percent(blocks.share)} of it: {listed(blocks.kinds)}
        </p>
      )}
      {waits && <p class="answer-text time-waits sentence">{waits}</p>}
    </Card>
  );
}

const listed = (shares: readonly (readonly [string, number])[]): string =>
  shares
    .filter(([, part]) => part >= LEAST)
    .map(([name, part]) => `${name} ${percent(part)}`)
    .join(", ");

/** The shares of the time by kind; what belongs to no operation is hatched. */
function KindBar(props: { kinds: readonly (readonly [string, number])[] }) {
  const { kinds } = props;
  const rest = 1 - kinds.reduce((sum, [, part]) => sum + part, 0);
  return (
    <div class="kind-bar" role="img" aria-label={listed(kinds)}>
      {kinds.map(([name, part]) => (
        <span key={name} class="kind-part" style={{ width: `${part * 100}%` }} title={`${name} ${percent(part)}`}>
          {part > ROOM && `${name} ${percent(part)}`}
        </span>
      ))}
      {rest > 0 && (
        <span
          class="fill-overhead"
          style={{ width: `${rest * 100}%` }}
          title={`launches of units, changes between them, and conversions ${percent(rest)}`}
        />
      )}
    </div>
  );
}

/** The most expensive groups of operations. */
function Groups(props: { found: Spending }) {
  const { dearest, hasShares, origin, totalSeconds } = props.found;
  const { showOp, measurement, rows } = useReport();
  const isSlowed = origin === "measured" && measurement?.findings.some((one) => one.id === "profiler-overhead");
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
              <span class={`fill-${one.unit ?? "measured"}`} style={{ width: `${(one.seconds / most) * 100}%` }} />
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
