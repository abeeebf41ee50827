import { useMemo } from "preact/hooks";
import { type Spending, spending } from "../../data/answers";
import { shortName } from "../../data/names";
import { BOUND_WORDS, OVERHEAD_WORDS } from "../../data/words";
import { figure, plural, share } from "../../format";
import { useReport } from "../../report";
import { OriginTag } from "../../ui/origin";
import { Card } from "./card";

const WORDS = { estimated: "estimated", planned: "planned cost", measured: "measured in operations", declared: "" } as const;

/** Kinds that the bar names; the others are one part. */
const KINDS = 5;

/** The most expensive groups of operations. */
export function TimeSpent() {
  const { table, rows, kernels, estimate, placement, groups } = useReport();
  const found = useMemo(
    () => spending({ table, rows, kernels, estimate, placement, groups }),
    [table, rows, kernels, estimate, placement, groups],
  );
  return (
    <Card id="time" question="Where does the time go?" tags={found && <OriginTag origin={found.origin} />}>
      {found ? <Groups found={found} /> : <p class="answer-text">Not known: operations have no times.</p>}
    </Card>
  );
}

function Groups(props: { found: Spending }) {
  const { found } = props;
  const { showOp, estimate, measurement, rows } = useReport();
  const isSlowed = found.origin === "measured" && measurement?.findings.some((one) => one.id === "profiler-overhead");
  const total = found.totalSeconds;
  const most = Math.max(...found.dearest.map((one) => one.seconds), found.overheadSeconds ?? 0);
  const width = (seconds: number) => ({ width: `${(seconds / most) * 100}%` });
  const shareOf = (seconds: number) => (found.hasShares ? share(seconds / total) : "");
  const types = found.types.slice(0, 3).map((one) => [one.label, shareOf(one.seconds)].filter(Boolean).join(" "));
  const rest = total - found.types.slice(0, KINDS).reduce((sum, one) => sum + one.seconds, 0) - (found.overheadSeconds ?? 0);
  return (
    <>
      {found.hasShares && (
        <div class="kind-bar" role="img" aria-label="Shares of the time by kind of operation, with launches">
          {found.types.slice(0, KINDS).map((one) => (
            <span
              key={one.label}
              class="kind-part"
              style={{ width: share(one.seconds / total).replace(" ", "") }}
              title={`${one.label} ${share(one.seconds / total)}`}
            >
              {one.seconds / total > 0.1 && one.label}
            </span>
          ))}
          {rest > 0 && (
            <span class="kind-part kind-rest" style={{ width: `${(rest / total) * 100}%` }} title={`others ${share(rest / total)}`} />
          )}
          {!!found.overheadSeconds && (
            <span class="fill-overhead" style={{ width: `${(found.overheadSeconds / total) * 100}%` }} title={OVERHEAD_WORDS} />
          )}
        </div>
      )}
      <ol class="spending" aria-label="The most expensive groups of operations">
        {found.dearest.map((one) => (
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
              <span class={`fill-${one.unit ?? "measured"}`} style={width(one.seconds)} />
            </span>
            <span class="spending-time">
              {figure(one.seconds, found.origin)} <span class="faint">{shareOf(one.seconds)}</span>
            </span>
          </li>
        ))}
        {!!found.overheadSeconds && (
          <li>
            <span class="spending-overhead" title={OVERHEAD_WORDS}>
              launches, changes of unit
            </span>
            <span class="spending-bar">
              <span class="fill-overhead" style={width(found.overheadSeconds)} />
            </span>
            <span class="spending-time">
              {figure(found.overheadSeconds, found.origin)} <span class="faint">{shareOf(found.overheadSeconds)}</span>
            </span>
          </li>
        )}
      </ol>
      <p class="answer-text roomy">
        {types.join(" · ")} {found.hasShares ? "of" : "in"} {figure(total, found.origin)} {WORDS[found.origin]}, in{" "}
        {plural(found.groups, "group")}
        {found.origin === "estimated" && estimate && `; waits for ${BOUND_WORDS[estimate.bound]}`}
        {isSlowed && ", longer than in predictions because of the engine's profiler"}
      </p>
    </>
  );
}
