import { type Badge, estimateBadges, isWhole, measurementBadges } from "../../data/answers";
import { perSecond } from "../../data/estimate";
import type { Estimate, Measurement } from "../../data/schema";
import { basisText, SETTING_NAMES, trustText } from "../../data/words";
import { duration, rateInWords } from "../../format";
import { useReport } from "../../report";
import { OriginTag } from "../../ui/origin";
import { Card } from "./card";
import { Devices } from "./devices";

/** The latency on the chosen device and on the machine that measured, each with what limits it. */
export function HowLong() {
  const { model, target, setting, estimate, measurement, placement } = useReport();
  return (
    <Card id="latency" question="How long does a prediction take?">
      <div class="latencies">
        {target && estimate && <Estimated device={target.device} estimate={estimate} />}
        {target && !estimate && placement && (
          <div class="latency latency-main">
            <div class="latency-place">
              {target.device}, {SETTING_NAMES[setting]}
            </div>
            <span class="latency-value latency-none">not estimated</span>
          </div>
        )}
        {target && !estimate && !placement && !measurement && (
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

function Estimated(props: { device: string; estimate: Estimate }) {
  const { target, setting, profile } = useReport();
  const { estimate } = props;
  const words = profile?.rates.find(
    (rate) => rate.phase === "decode" && rate.device === estimate.device && rate.os === estimate.os && rate.compute_units === setting,
  );
  const { value, low, high } = estimate.latency;
  const isPart = estimate.left_out.length > 0;
  return (
    <div class="latency latency-main" title={`${target?.os}, ${SETTING_NAMES[setting]}; ${basisText(estimate)}`}>
      <div class="latency-place">
        {props.device}, {SETTING_NAMES[setting]}
      </div>
      <div class="latency-line">
        <span class="latency-value">
          {isPart && <span class="latency-least">at least </span>}
          {duration(value)}
        </span>
        <OriginTag origin="estimated" />
        <Badges badges={estimateBadges(estimate)} />
      </div>
      <div class="latency-text">
        {words && <b>{perSecond(words.tokens_per_s.value)} tokens per second; </b>}
        {duration(low)} – {duration(high)} (80 % interval)
        {!isPart && `; ${rateInWords(value, "prediction")}`}
      </div>
      {estimate.trust && <p class="latency-text faint">{trustText(estimate.trust)}</p>}
      <SettingChips />
    </div>
  );
}

/** The estimates of all settings of the device, to choose among. */
function SettingChips() {
  const { target, setting, chooseTarget } = useReport();
  if (!target || target.estimates.size < 2) return null;
  return (
    <div class="setting-chips" role="group" aria-label="Estimates under each setting">
      {target.settings.map((one) => {
        const latency = target.estimates.get(one)?.latency;
        return (
          latency && (
            <button
              key={one}
              type="button"
              aria-pressed={one === setting}
              title={`${duration(latency.low)} – ${duration(latency.high)} (80 % interval)`}
              onClick={() => chooseTarget(target, one)}
            >
              {SETTING_NAMES[one]} <b>{duration(latency.value)}</b>
            </button>
          )
        );
      })}
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
