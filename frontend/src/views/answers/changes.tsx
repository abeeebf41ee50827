import type { Change } from "../../data/answers";
import { isPlanned } from "../../data/words";
import { plural } from "../../format";
import { useAnswer, useChanges, useReport } from "../../report";
import { OriginTag } from "../../ui/origin";
import { Card } from "./card";

/** The first changes that are worth making. */
export function Changes() {
  const { placement, findings } = useReport();
  const answer = useAnswer();
  const found = useChanges();
  return (
    <Card id="changes" question="What should I change?" tags={found.length > 0 && <OriginTag origin="estimated" />}>
      {found.length > 0 && (
        <ol class="changes">
          {found.map((one) => (
            <ChangeItem key={`${one.text} ${one.ids[0]}`} change={one} />
          ))}
        </ol>
      )}
      {answer?.nothing ? <p class="answer-text sentence">{answer.nothing}.</p> : found.length === 0 && <Nothing />}
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

/** Why no change is known; for trees, what their time depends on. */
function Nothing() {
  const { placement, model } = useReport();
  if (placement) return <p class="answer-text">No reason or finding is estimated to cost time on this device with this setting.</p>;
  if (isPlanned(model.kind) && !model.stages.some((stage) => stage.facts.length > 0))
    return <p class="answer-text">Advice follows from a plan for a device; there is none here.</p>;
  const facts = [model.facts, ...model.stages.map((stage) => stage.facts)].flatMap((one) => {
    const known = new Map(one);
    const trees = known.get("trees");
    return trees ? [[trees, known.get("depth"), known.get("uses")].filter(Boolean).join(", ")] : [];
  });
  return (
    <>
      <p class="answer-text">No saving is known: plans cover only programs and neural networks.</p>
      {facts.map((one) => (
        <p key={one} class="answer-text">
          The time depends on the number and the depth of the trees: {one}. <OriginTag origin="declared" />
        </p>
      ))}
    </>
  );
}

function ChangeItem(props: { change: Change }) {
  const { text, saving, certainty, ids, part, lines } = props.change;
  const { showOp } = useReport();
  return (
    <li>
      <div class="change-text">{text}</div>
      <div class="change-facts">
        <span class="saving-bar" aria-hidden="true">
          <span style={{ width: `${Math.min(part, 1) * 100}%` }} />
        </span>{" "}
        <b>{saving}</b> <span class="faint">{certainty} </span>
        {ids.length > 0 && (
          <button type="button" class="link" onClick={() => showOp(ids[0] ?? "")}>
            {plural(ids.length, "operation")}
          </button>
        )}
      </div>
      {lines.map((line) => (
        <code key={line} class="change-line roomy">
          {line}
        </code>
      ))}
    </li>
  );
}
