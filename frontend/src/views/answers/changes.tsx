import { useMemo } from "preact/hooks";
import { type Change, changes } from "../../data/answers";
import { plural } from "../../format";
import { useReport } from "../../report";
import { OriginTag } from "../../ui/origin";
import { Card } from "./card";

/** The first changes that are worth making. */
export function Changes() {
  const { placement, rows, remarks } = useReport();
  const found = useMemo(
    () =>
      placement
        ? changes(
            placement,
            rows,
            remarks.map((one) => one.finding),
          )
        : [],
    [placement, rows, remarks],
  );
  return (
    <Card id="changes" question="What should I change?">
      {found.length > 0 ? (
        <ol class="changes">
          {found.map((one) => (
            <ChangeItem key={`${one.text} ${one.ids[0]}`} change={one} />
          ))}
        </ol>
      ) : (
        <p class="answer-text">
          {placement
            ? "No change is known to save time on this device with this setting."
            : "Advice follows from a plan for a device; there is none here."}
        </p>
      )}
      <p class="answer-text">
        <a class="more-link" href="#findings">
          All findings and reasons
        </a>
      </p>
    </Card>
  );
}

function ChangeItem(props: { change: Change }) {
  const { change } = props;
  const { showOp } = useReport();
  return (
    <li>
      <div class="change-text" title={change.reason}>
        {change.text}
      </div>
      <div class="change-facts">
        {change.saving ? (
          <>
            <b>{change.saving}</b> <OriginTag origin={change.origin} />
          </>
        ) : (
          <span>saving not known</span>
        )}
        <span class="faint">
          <span class="roomy">
            {" "}
            known by: {change.confidence}
            {change.ids.length > 0 && ";"}
          </span>{" "}
          {change.ids.length > 0 && (
            <button type="button" class="link" onClick={() => showOp(change.ids[0] ?? "")}>
              {plural(change.ids.length, "operation")}
            </button>
          )}
        </span>
      </div>
    </li>
  );
}
