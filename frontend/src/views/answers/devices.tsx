import { timeShares } from "../../data/answers";
import { measurementName, targetName } from "../../data/profile";
import type { Estimate, Speed } from "../../data/schema";
import { SETTING_NAMES, UNIT_NAMES } from "../../data/words";
import { duration, percent } from "../../format";
import { useReport } from "../../report";
import { UnitBar } from "../../ui/units";

/** Every device on one logarithmic axis, with its interval, its units and its best setting; then what this machine measured. */
export function Devices() {
  const { targets, target, setting, measurements, profile, chooseTarget } = useReport();
  const devices = targets.flatMap((one) => {
    const speed = profile?.answer?.speeds.find(({ device, os }) => device === one.device && os === one.os);
    const known: Estimate | Speed | undefined = speed ?? one.estimates.get(setting);
    return known ? [{ target: one, latency: known.latency, shares: timeShares(known), best: speed?.best }] : [];
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
          <button type="button" class="link" aria-pressed={one === target} onClick={() => chooseTarget(one, best ? "all" : setting)}>
            {targetName(one)}
          </button>
          <span class="range" title={`${duration(low)} – ${duration(high)}`}>
            <span class="range-line" style={{ left: `${at(low)}%`, width: `${at(high) - at(low)}%` }} />
            <span class="range-point" style={{ left: `${at(value)}%` }} />
          </span>
          <b class="number">{duration(value)}</b>
          <UnitBar parts={shares.map(({ unit, part }) => ({ unit, amount: part, text: duration(part * value) }))} />
          <span class="faint">{best && bestWords(best)}</span>
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

/** The fastest setting with its time, as in `reports/answer.py`. */
function bestWords({ compute_units: setting, latency, certainty }: Speed["best"]): string {
  if (certainty === "no gain") return "";
  return `${SETTING_NAMES[setting]} ${duration(latency.value)}${certainty === "unclear" ? "?" : ""}`;
}

/** The answer in a sentence: how long, and where most of the time is spent. */
export function Verdict() {
  const { target, estimate, profile } = useReport();
  if (profile?.answer?.verdict) return <p class="verdict-line">{profile.answer.verdict}</p>;
  if (!target || !estimate || estimate.left_out.length > 0) return null;
  const [main] = timeShares(estimate).sort((a, b) => b.part - a.part);
  return (
    <p class="verdict-line">
      On {target.device} a prediction takes about <b>{duration(estimate.latency.value)}</b>
      {main && `, ${percent(main.part)} of it on the ${UNIT_NAMES[main.unit]}`}.
    </p>
  );
}
