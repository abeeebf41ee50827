import { timeShares } from "../../data/answers";
import type { Answer } from "../../data/schema";
import { SETTING_NAMES } from "../../data/words";
import { duration } from "../../format";
import { OriginTag } from "../../ui/origin";
import { UnitBar } from "../../ui/units";
import { Card } from "./card";
import { TimeBar } from "./time";

/** Answers that were pinned, next to each other. */
export function Pinned(props: { answers: readonly Answer[]; onPin: (one: Answer) => void }) {
  return (
    <Card id="pinned" question="Pinned" tags={<OriginTag origin="estimated" />}>
      <div class="pinned">
        {props.answers.map((answer) => (
          <PinnedAnswer key={`${answer.device} ${answer.os} ${answer.compute_units}`} answer={answer} onUnpin={() => props.onPin(answer)} />
        ))}
      </div>
    </Card>
  );
}

function PinnedAnswer(props: { answer: Answer; onUnpin: () => void }) {
  const { device, os, compute_units: setting, latency, units, load, time, headline } = props.answer;
  if (!latency) return null;
  const { value, low, high } = latency;
  return (
    <div>
      <h3>
        {device}, {os}, {SETTING_NAMES[setting]}{" "}
        <button type="button" class="quiet" onClick={props.onUnpin}>
          Unpin
        </button>
      </h3>
      <p>
        <b class="pinned-value">{duration(value)}</b>{" "}
        <span class="faint">
          {duration(low)} – {duration(high)}
          {load && `; first load ${duration(load.first_s.value)}`}
        </span>
      </p>
      <UnitBar parts={timeShares(units).map(({ unit, part }) => ({ unit, amount: part, text: duration(part * value) }))} />
      <TimeBar parts={time.map(({ part, share }) => ({ name: part, share, seconds: share * value }))} />
      <p class="answer-text">{headline}</p>
    </div>
  );
}
