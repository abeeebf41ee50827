import { type Badge, isWhole, measurementBadges } from "../../data/answers";
import { perSecond } from "../../data/estimate";
import { answerOf } from "../../data/profile";
import type { Answer, Figure, Measurement } from "../../data/schema";
import { SETTING_NAMES } from "../../data/words";
import { duration, rateInWords } from "../../format";
import { useAnswer, useReport } from "../../report";
import { OriginTag } from "../../ui/origin";
import { Card } from "./card";
import { Devices } from "./devices";

/** The latency on the chosen device and on the machine that measured, each with what limits it. */
export function HowLong() {
  const { model, target, setting, estimate, measurement, placement } = useReport();
  const answer = useAnswer();
  return (
    <Card id="latency" question="How long does a prediction take?">
      <div class="latencies">
        {answer?.latency && <Estimated answer={answer} latency={answer.latency} />}
        {target && !answer?.latency && placement && (
          <div class="latency latency-main">
            <div class="latency-place">
              {target.device}, {SETTING_NAMES[setting]}
            </div>
            <span class="latency-value latency-none">not estimated</span>
          </div>
        )}
        {target && !answer?.latency && !placement && !measurement && (
          <p class="answer-text">
            {model.absent ? (
              `Not known: it cannot be run here, because ${model.absent}.`
            ) : (
              <>
                Not known: <code>coremlscope profile</code> times models of this kind on this machine.
              </>
            )}
          </p>
        )}
        {measurement && <Measured measurement={measurement} isMain={!target} />}
        {target && estimate && estimate.notes.length > 0 && (
          <div class="latency-notes">
            {estimate.notes.map((note) => (
              <p class="latency-text" key={note}>
                {note}
              </p>
            ))}
          </div>
        )}
      </div>
      <Devices />
    </Card>
  );
}

function Estimated(props: { answer: Answer; latency: Figure }) {
  const { device, os, compute_units: setting, is_at_least: isPart, tokens, trust, load } = props.answer;
  const { value, low, high } = props.latency;
  return (
    <div class="latency latency-main" title={os}>
      <div class="latency-place">
        {device}, {SETTING_NAMES[setting]}
      </div>
      <div class="latency-line">
        <span class="latency-value">
          {isPart && <span class="latency-least">at least </span>}
          {duration(value)}
        </span>
        <OriginTag origin="estimated" />
        {trust.certainty !== "likely" && (
          <span class="badge" title={trust.doubts.join("; ")}>
            {trust.certainty}
          </span>
        )}
      </div>
      <div class="latency-text">
        {tokens?.decode && (
          <b>
            {perSecond(tokens.decode.value)} tokens per second, context {tokens.context};{" "}
          </b>
        )}
        {duration(low)} – {isPart ? "?" : duration(high)} (80 % interval)
        {!isPart && !tokens?.decode && `; ${rateInWords(value, "prediction")}`}
      </div>
      {load && (
        <div class="latency-text roomy">
          first load {duration(load.first_s.value)}, later ones {duration(load.cached_s.value)}
        </div>
      )}
      <p class="latency-text faint">{[...trust.doubts.map((one) => `${one}.`), trust.accuracy].filter(Boolean).join(" ")}</p>
      <SettingChips />
    </div>
  );
}

/** The latencies under all settings of the device, to choose among. */
function SettingChips() {
  const { target, setting, profile, chooseTarget } = useReport();
  if (!target || !profile) return null;
  const known = target.settings.flatMap((one) => answerOf(profile, target, one) ?? []);
  return (
    <div class="setting-chips" role="group" aria-label="Estimates under each setting">
      {known.map(
        ({ compute_units: one, latency, is_at_least: isPart }) =>
          latency && (
            <button
              key={one}
              type="button"
              aria-pressed={one === setting}
              title={`${duration(latency.low)} – ${duration(latency.high)} (80 % interval)`}
              onClick={() => chooseTarget(target, one)}
            >
              {SETTING_NAMES[one]}{" "}
              <b>
                {isPart && "≥ "}
                {duration(latency.value)}
              </b>
            </button>
          ),
      )}
    </div>
  );
}

function Measured(props: { measurement: Measurement; isMain: boolean }) {
  const { measurement } = props;
  const { measuredBy } = useReport();
  const { predict, load, compile } = measurement;
  const median = predict?.statistics.median;
  const others = [load && `load ${duration(load.statistics.median)}`, compile && `compile ${duration(compile.statistics.median)}`];
  const isMeasuredWhole = isWhole(measurement);
  return (
    <div class={props.isMain ? "latency latency-main" : "latency"} title={`Medians, measured by ${measuredBy}`}>
      <div class="latency-place">{measuredBy}</div>
      <div class="latency-line">
        {median === undefined ? (
          <span class="latency-value latency-none">no prediction</span>
        ) : (
          <span class="latency-value">
            {!isMeasuredWhole && <span class="latency-least">the parts that ran: </span>}
            {duration(median)}
          </span>
        )}
        <OriginTag origin="measured" />
        <Badges badges={measurementBadges(measurement)} />
      </div>
      <div class="latency-text">
        {median !== undefined && `median of ${predict?.statistics.count}`}
        {median && isMeasuredWhole ? `; ${rateInWords(median, "prediction")}` : ""}
      </div>
      <div class="latency-text roomy">{others.filter(Boolean).join("; ")}</div>
    </div>
  );
}

function Badges(props: { badges: readonly Badge[] }) {
  return props.badges.map((badge) => (
    <span key={badge.text} class="badge" title={badge.title}>
      {badge.text}
    </span>
  ));
}
