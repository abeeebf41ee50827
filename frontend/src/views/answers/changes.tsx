import { useMemo } from "preact/hooks";
import { type Change, changes, proposed } from "../../data/answers";
import { isPlanned } from "../../data/words";
import { plural } from "../../format";
import { useReport } from "../../report";
import { OriginTag } from "../../ui/origin";
import { Card } from "./card";

/** The first changes that are worth making. */
export function Changes() {
  const { placement, rows, remarks, target, setting, profile } = useReport();
  const answer = profile?.answer;
  const found = useMemo(() => {
    // An answer is about the default setting.
    if (answer && answer.device === target?.device && setting === "all") return proposed(answer);
    return placement ? changes({ placement, rows, findings: remarks.map((one) => one.finding), estimates: target?.estimates }) : [];
  }, [answer, placement, rows, remarks, target, setting]);
  return (
    <Card id="changes" question="What should I change?">
      {found.length > 0 ? (
        <ol class="changes">
          {found.map((one) => (
            <ChangeItem key={`${one.text} ${one.ids[0]}`} change={one} />
          ))}
        </ol>
      ) : (
        <Nothing />
      )}
      {(placement || remarks.length > 0) && (
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
  if (placement) return <p class="answer-text">No change is known to save time on this device with this setting.</p>;
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
  const { change } = props;
  const { target, showOp, chooseTarget } = useReport();
  const { setting, confidence, ids } = change;
  const hasLinks = ids.length > 0 || Boolean(setting && target);
  return (
    <li>
      <div class="change-text" title={change.reason}>
        {change.text}
      </div>
      <div class="change-facts">
        <span class="saving-bar" aria-hidden="true">
          <span style={{ width: `${Math.min(change.part, 1) * 100}%` }} />
        </span>{" "}
        <b>{change.saving}</b> <OriginTag origin={change.origin} /> {change.certainty && <span class="faint">{change.certainty} </span>}
        {confidence && (
          <span class="faint roomy">
            evidence: {confidence}
            {hasLinks && ";"}{" "}
          </span>
        )}
        {ids.length > 0 && (
          <button type="button" class="link" onClick={() => showOp(ids[0] ?? "")}>
            {plural(ids.length, "operation")}
          </button>
        )}
        {setting && target && (
          <button type="button" class="link" onClick={() => chooseTarget(target, setting)}>
            show this setting
          </button>
        )}
      </div>
      {[change.code, change.command].map(
        (line) =>
          line && (
            <code key={line} class="change-line roomy">
              {line}
            </code>
          ),
      )}
    </li>
  );
}
