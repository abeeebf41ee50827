import { cachesOf, perSecond } from "../data/estimate";
import { BOUND_WORDS, SETTING_NAMES } from "../data/words";
import { duration } from "../format";
import { useReport } from "../report";
import { OriginTag } from "../ui/origin";
import { ScrollRegion } from "../ui/scroll";
import { Section } from "../ui/section";

const NOTE =
  "Predictions one after the other, each of which reads the whole cache; sampling and the app around them are not included. The interval contains 80 % of the cases.";

/** Tokens per second of a language model on devices. */
export function Generation() {
  const { profile } = useReport();
  const rates = profile?.rates ?? [];
  if (rates.length === 0) return null;
  const hasFunctions = new Set(rates.map((rate) => rate.function)).size > 1;
  return (
    <Section
      id="generation"
      title="Tokens per second"
      note={
        <>
          <OriginTag origin="estimated" />
          <span>the cache holds {cachesOf(rates)}</span>
        </>
      }
    >
      <ScrollRegion label="Tokens per second">
        <table class="plain">
          <thead>
            <tr>
              <th scope="col">Device</th>
              <th scope="col">Setting</th>
              {hasFunctions && <th scope="col">Function</th>}
              <th scope="col">Phase</th>
              {["Tokens", "Prediction", "Tokens per second", "80 % interval"].map((title) => (
                <th scope="col" class="number" key={title}>
                  {title}
                </th>
              ))}
              <th scope="col">Bound by</th>
            </tr>
          </thead>
          <tbody>
            {rates.map((rate) => (
              <tr key={`${rate.device} ${rate.os} ${rate.compute_units} ${rate.function} ${rate.phase} ${rate.tokens}`}>
                <th scope="row">
                  {rate.device}
                  {rate.own && <span title="calibrated on your measurements"> †</span>}
                </th>
                <td>{SETTING_NAMES[rate.compute_units]}</td>
                {hasFunctions && <td>{rate.function}</td>}
                <td>{rate.phase}</td>
                <td class="number">{rate.tokens}</td>
                <td class="number">{duration(rate.step_s.value)}</td>
                <td class="number">{perSecond(rate.tokens_per_s.value)}</td>
                <td class="number">
                  {perSecond(rate.tokens_per_s.low)} – {perSecond(rate.tokens_per_s.high)}
                </td>
                <td>{BOUND_WORDS[rate.bound]}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </ScrollRegion>
      <p class="caption dim">{NOTE}</p>
    </Section>
  );
}
