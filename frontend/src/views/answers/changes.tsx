import type { Finding, Proposal } from "../../data/schema";
import { gainText } from "../../data/words";
import { bytes, duration, plural } from "../../format";
import { useReport } from "../../report";
import { findingPage } from "../../site";
import { About } from "../../ui/about";
import { CopyButton } from "../../ui/copy";
import { OriginTag } from "../../ui/origin";
import { Operations } from "../operations";
import { Card } from "./card";

/** The changes of the answer, in its order; those that save space alone are folded. */
export function Changes() {
  const { answer, model } = useReport();
  const changes = answer?.changes ?? [];
  const timed = changes.filter((one) => one.after || one.saved_bytes === 0);
  const small = changes.filter((one) => !timed.includes(one));
  return (
    <Card id="changes" question="What should I change?" tags={changes.length > 0 && <OriginTag origin="estimated" />}>
      {changes.length === 0 && <Trees facts={[model.facts, ...model.stages.map((stage) => stage.facts)]} />}
      <ol class="changes">
        {timed.map((one) => (
          <ChangeItem key={`${one.id} ${one.text}`} change={one} />
        ))}
      </ol>
      {small.length > 0 && (
        <details>
          <summary>{plural(small.length, "change")} without a visible gain of time: smaller files</summary>
          <ol class="changes">
            {small.map((one) => (
              <ChangeItem key={`${one.id} ${one.text}`} change={one} />
            ))}
          </ol>
        </details>
      )}
    </Card>
  );
}

/** Without an answer: for trees, what their time depends on. */
function Trees(props: { facts: readonly (readonly (readonly [string, string])[])[] }) {
  const known = props.facts.flatMap((one) => {
    const facts = new Map(one);
    const trees = facts.get("trees");
    return trees ? [[trees, facts.get("depth"), facts.get("uses")].filter(Boolean).join(", ")] : [];
  });
  return (
    <>
      <p class="answer-text">No saving is known here.</p>
      {known.map((one) => (
        <p key={one} class="answer-text">
          The time depends on the number and the depth of the trees: {one}. <OriginTag origin="declared" />
        </p>
      ))}
    </>
  );
}

function ChangeItem(props: { change: Proposal }) {
  const { change: one } = props;
  const { findings } = useReport();
  const saved = one.after && one.before_s ? one.before_s - one.after.value : 0;
  const marks = [one.after && !one.is_planned_again && "not planned again", one.overlaps && "overlaps those above"].filter(Boolean);
  const finding = findings.find(({ id }) => id === one.id);
  return (
    <li>
      <span class={one.after || one.saved_bytes > 0 ? "change-gain" : "change-gain change-none"} title={gainText(one)}>
        <span class="saving-bar" aria-hidden="true">
          <span style={{ width: `${one.before_s ? Math.min(saved / one.before_s, 1) * 100 : 0}%` }} />
        </span>{" "}
        <b>{one.after ? `−${duration(saved)}` : one.saved_bytes > 0 && `−${bytes(one.saved_bytes)}`}</b>
      </span>
      <div>
        <span class="change-text">{one.text}</span>{" "}
        <span class="change-facts faint">{[one.after && one.certainty, ...marks].filter(Boolean).join(", ")}</span>
        {(finding || one.ops.length > 0) && <Reason finding={finding} change={one} />}
      </div>
      <span class="change-copies">
        {one.code && (
          <CopyButton label={`Copy code: ${one.code}`} text={() => one.code}>
            Copy code
          </CopyButton>
        )}
        {one.command && (
          <CopyButton label={`Copy command: ${one.command}`} text={() => one.command}>
            Copy command
          </CopyButton>
        )}
      </span>
    </li>
  );
}

/** What was found, with its page and its operations. */
function Reason(props: { finding: Finding | undefined; change: Proposal }) {
  const { finding } = props;
  return (
    <details>
      <summary>Why</summary>
      {finding && (
        <>
          {finding.text} <About id={finding.id} page={findingPage(finding.id)} />{" "}
        </>
      )}
      <Operations ids={props.change.ops} cause={props.change.id} />
    </details>
  );
}
