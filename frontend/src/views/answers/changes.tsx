import type { Proposal } from "../../data/schema";
import { gainText } from "../../data/words";
import { plural } from "../../format";
import { useAnswer, useReport } from "../../report";
import { OriginTag } from "../../ui/origin";
import { Card } from "./card";

/** The changes of the answer, in its order. */
export function Changes() {
  const { placement, findings, model } = useReport();
  const answer = useAnswer();
  const found = answer?.changes ?? [];
  return (
    <Card id="changes" question="What should I change?" tags={found.length > 0 && <OriginTag origin="estimated" />}>
      {found.length > 0 ? (
        <ol class="changes">
          {found.map((one) => (
            <ChangeItem key={`${one.id} ${one.text}`} change={one} />
          ))}
        </ol>
      ) : (
        <Trees facts={[model.facts, ...model.stages.map((stage) => stage.facts)]} />
      )}
      {(placement || findings.length > 0) && (
        <p class="answer-text">
          <a class="more-link" href="#findings">
            All findings and reasons
          </a>
        </p>
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
  const { showOp } = useReport();
  const gain = gainText(one);
  const [op] = one.ops;
  const marks = [!one.is_planned_again && one.after && "not planned again", one.overlaps && "overlaps those above"];
  const part = one.after && one.before_s ? 1 - one.after.value / one.before_s : 0;
  return (
    <li>
      <div class="change-text">{one.text}</div>
      {gain && (
        <div class="change-facts">
          <span class="saving-bar" aria-hidden="true">
            <span style={{ width: `${Math.min(Math.max(part, 0), 1) * 100}%` }} />
          </span>{" "}
          <b>{gain}</b> <span class="faint">{[one.certainty, ...marks].filter(Boolean).join(", ")} </span>
          {op && (
            <button type="button" class="link" onClick={() => showOp(op)}>
              {one.ops.length > 1 ? `first of ${plural(one.ops.length, "operation")}` : "operation"}
            </button>
          )}
        </div>
      )}
      {[one.code, one.command].filter(Boolean).map((line) => (
        <code key={line} class="change-line roomy">
          {line}
        </code>
      ))}
    </li>
  );
}
