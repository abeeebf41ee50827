import { timeShares } from "../../data/answers";
import { answerOf, measurementName, targetName } from "../../data/profile";
import { SETTING_NAMES } from "../../data/words";
import { duration } from "../../format";
import { useAnswer, useReport } from "../../report";
import { UnitBar } from "../../ui/units";

/** Every device on one logarithmic axis, with its interval, its units and its best setting; then what this machine measured. */
export function Devices() {
  const { targets, target, setting, measurements, profile, chooseTarget } = useReport();
  const devices = targets.flatMap((one) => {
    const known = profile && answerOf(profile, one, setting);
    return known?.latency ? [{ target: one, latency: known.latency, shares: timeShares(known.units), best: known.best }] : [];
  });
  const measured = measurements.flatMap((one) => (one.predict ? [{ one, median: one.predict.statistics.median }] : []));
  if (devices.length + measured.length < 2) return null;
  const ends = [...devices.flatMap(({ latency }) => [latency.low, latency.high]), ...measured.map(({ median }) => median)];
  const [least, most] = [Math.min(...ends), Math.max(...ends)];
  const at = (seconds: number) => (most > least && least > 0 ? (Math.log(seconds / least) / Math.log(most / least)) * 100 : 50);
  return (
    <ul class="devices" aria-label="Devices on one logarithmic axis">
      {devices.map(({ target: one, latency: { value, low, high }, shares, best }) => (
        <li key={one.key}>
          <button type="button" class="link" aria-pressed={one === target} onClick={() => chooseTarget(one, setting)}>
            {targetName(one)}
          </button>
          <span class="range" title={`${duration(low)} – ${duration(high)}`}>
            <span class="range-line" style={{ left: `${at(low)}%`, width: `${at(high) - at(low)}%` }} />
            <span class="range-point" style={{ left: `${at(value)}%` }} />
          </span>
          <b class="number">{duration(value)}</b>
          <UnitBar parts={shares.map(({ unit, part }) => ({ unit, amount: part, text: duration(part * value) }))} />
          <span class="faint">
            {best &&
              best.compute_units !== setting &&
              `${best.certainty} ${duration(best.latency.value)}, ${SETTING_NAMES[best.compute_units]}`}
          </span>
        </li>
      ))}
      {measured.map(({ one, median }) => (
        <li key={measurementName(measurements, one)} class="faint">
          <span class="ellipsis">{measurementName(measurements, one)}</span>
          <span class="range">
            <span class="range-point range-measured" style={{ left: `${at(median)}%` }} />
          </span>
          <span class="number">{duration(median)}</span>
          <span class="roomy">measured</span>
          <span />
        </li>
      ))}
    </ul>
  );
}

/** The answer in a sentence; red where something is known to go wrong. */
export function Verdict() {
  const answer = useAnswer();
  if (!answer) return null;
  return <p class={answer.is_hazardous ? "verdict-line banner" : "verdict-line"}>{answer.headline}</p>;
}
