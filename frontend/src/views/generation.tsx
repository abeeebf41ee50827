import { cachesOf, perSecond } from "../data/estimate";
import type { TokenRate, TokenTiming } from "../data/schema";
import { BOUND_WORDS, SETTING_NAMES, UNIT_SHORT } from "../data/words";
import { bytes, duration } from "../format";
import { useReport } from "../report";
import { OriginTag } from "../ui/origin";
import { ScrollRegion } from "../ui/scroll";
import { Section } from "../ui/section";

const NOTE = "Predictions one after the other; sampling and the app around them are not included. The interval contains 80 % of the cases.";
const TIMING_NOTE =
  "The median of predictions that share one state, with its 95 % confidence interval. Inputs are synthetic; sampling and the app around them are not included.";

/** Tokens per second of a language model: measured, and estimated on devices. */
export function Generation() {
  const { profile } = useReport();
  const timings = profile?.token_timings ?? [];
  const rates = profile?.rates ?? [];
  if (rates.length + timings.length === 0) return null;
  return (
    <Section id="generation" title="Tokens per second" note={<span>the cache holds {cachesOf(rates.length > 0 ? rates : timings)}</span>}>
      {timings.length > 0 && <Timings timings={timings} />}
      {rates.length > 0 && <Rates rates={rates} />}
    </Section>
  );
}

const numbers = (titles: readonly string[]) =>
  titles.map((title) => (
    <th scope="col" class="number" key={title}>
      {title}
    </th>
  ));

function Timings({ timings }: { timings: readonly TokenTiming[] }) {
  const hasFunctions = new Set(timings.map((one) => one.function)).size > 1;
  const hasUnits = timings.some((one) => one.compute_units !== "");
  return (
    <>
      <p class="caption">
        <OriginTag origin="measured" /> {[...new Set(timings.map((one) => one.label))].join("; ")}
      </p>
      <ScrollRegion label="Measured tokens per second">
        <table class="plain">
          <thead>
            <tr>
              <th scope="col">Phase</th>
              {hasUnits && <th scope="col">Setting</th>}
              {hasFunctions && <th scope="col">Function</th>}
              {numbers(["Tokens", "Context", "Prediction", "Tokens per second", "95 % interval", "Runs", "Peak memory"])}
            </tr>
          </thead>
          <tbody>
            {timings.map((one) => (
              <tr key={`${one.label} ${one.compute_units} ${one.function} ${one.tokens} ${one.attended}`}>
                <th scope="row">{one.phase}</th>
                {hasUnits && <td>{one.compute_units}</td>}
                {hasFunctions && <td>{one.function}</td>}
                <td class="number">{one.tokens}</td>
                <td class="number">{one.attended}</td>
                <td class="number">{duration(one.step_s.value)}</td>
                <td class="number">{perSecond(one.tokens_per_s.value)}</td>
                <td class="number">
                  {one.tokens_per_s.low === one.tokens_per_s.high
                    ? "–"
                    : `${perSecond(one.tokens_per_s.low)} – ${perSecond(one.tokens_per_s.high)}`}
                </td>
                <td class="number">{one.predict.statistics.count}</td>
                <td class="number">{one.peak_memory_bytes === null ? "–" : bytes(one.peak_memory_bytes)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </ScrollRegion>
      <p class="caption dim">{TIMING_NOTE}</p>
    </>
  );
}

function Rates({ rates }: { rates: readonly TokenRate[] }) {
  const hasFunctions = new Set(rates.map((rate) => rate.function)).size > 1;
  return (
    <>
      <p class="caption">
        <OriginTag origin="estimated" /> on devices
      </p>
      <ScrollRegion label="Estimated tokens per second">
        <table class="plain">
          <thead>
            <tr>
              <th scope="col">Device</th>
              <th scope="col">Setting</th>
              {hasFunctions && <th scope="col">Function</th>}
              <th scope="col">Phase</th>
              {numbers(["Tokens", "Context", "Prediction", "Tokens per second", "80 % interval"])}
              <th scope="col">Unit</th>
              <th scope="col">Waits for</th>
            </tr>
          </thead>
          <tbody>
            {rates.map((rate) => (
              <tr key={`${rate.device} ${rate.os} ${rate.compute_units} ${rate.function} ${rate.tokens} ${rate.attended}`}>
                <th scope="row">
                  {rate.device}
                  {rate.own && <span title="calibrated on your measurements"> †</span>}
                </th>
                <td>{SETTING_NAMES[rate.compute_units]}</td>
                {hasFunctions && <td>{rate.function}</td>}
                <td>{rate.phase}</td>
                <td class="number">{rate.tokens}</td>
                <td class="number">{rate.attended || rate.context}</td>
                <td class="number">{duration(rate.step_s.value)}</td>
                <td class="number">{perSecond(rate.tokens_per_s.value)}</td>
                <td class="number">
                  {perSecond(rate.tokens_per_s.low)} – {perSecond(rate.tokens_per_s.high)}
                </td>
                <td>{rate.unit && UNIT_SHORT[rate.unit]}</td>
                <td>{BOUND_WORDS[rate.bound]}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </ScrollRegion>
      <p class="caption dim">{NOTE}</p>
    </>
  );
}
