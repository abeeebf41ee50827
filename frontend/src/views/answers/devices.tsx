import { unitSeconds } from "../../data/answers";
import { measurementName, type Target, targetName } from "../../data/profile";
import type { ComputeUnits, Estimate } from "../../data/schema";
import { SETTING_NAMES, UNIT_NAMES } from "../../data/words";
import { duration } from "../../format";
import { useReport } from "../../report";
import { UnitBar } from "../../ui/units";

/** The setting with the least estimate, of those that include all operations. */
export function bestOf(target: Target): [ComputeUnits, Estimate] | null {
  const whole = [...target.estimates].filter(([, one]) => one.left_out.length === 0);
  return whole.sort(([, a], [, b]) => a.latency.value - b.latency.value)[0] ?? null;
}

/** Every device under its best setting on one logarithmic axis, with its interval and units; then what this machine measured. */
export function Devices() {
  const { targets, target, measurements, chooseTarget } = useReport();
  const devices = targets.flatMap((one) => {
    const best = bestOf(one);
    return best ? [{ target: one, setting: best[0], estimate: best[1] }] : [];
  });
  const measured = measurements.flatMap((one) => (one.predict ? [{ one, median: one.predict.statistics.median }] : []));
  if (devices.length + measured.length < 2) return null;
  const ends = [...devices.flatMap(({ estimate: { latency } }) => [latency.low, latency.high]), ...measured.map(({ median }) => median)];
  const [least, most] = [Math.min(...ends), Math.max(...ends)];
  const at = (seconds: number) => (most > least && least > 0 ? (Math.log(seconds / least) / Math.log(most / least)) * 100 : 50);
  return (
    <ul class="devices" aria-label="Devices under their best settings, on one logarithmic axis">
      {devices.map(({ target: one, setting, estimate }) => (
        <li key={one.key}>
          <button type="button" class="link" aria-pressed={one === target} onClick={() => chooseTarget(one, setting)}>
            {targetName(one)}
          </button>
          <span class="range" title={`${duration(estimate.latency.low)} – ${duration(estimate.latency.high)} (80 % interval)`}>
            <span
              class="range-line"
              style={{ left: `${at(estimate.latency.low)}%`, width: `${at(estimate.latency.high) - at(estimate.latency.low)}%` }}
            />
            <span class="range-point" style={{ left: `${at(estimate.latency.value)}%` }} />
          </span>
          <b class="number">{duration(estimate.latency.value)}</b>
          <UnitBar parts={unitSeconds(estimate).map((part) => ({ unit: part.unit, amount: part.seconds, text: duration(part.seconds) }))} />
          <span class="faint">{SETTING_NAMES[setting]}</span>
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

/** The answer in a sentence: how long, where most of the time is spent, and whether another setting is faster. */
export function Verdict() {
  const { target, estimate, setting, profile } = useReport();
  if (profile?.answer?.verdict) return <p class="verdict-line">{profile.answer.verdict}</p>;
  if (!target || !estimate || estimate.left_out.length > 0) return null;
  const [main] = unitSeconds(estimate)
    .filter((one) => one.unit !== "overhead")
    .sort((a, b) => b.seconds - a.seconds);
  const best = bestOf(target);
  const isBest = !best || best[1].latency.value >= estimate.latency.value * 0.99;
  return (
    <p class="verdict-line">
      On {target.device} a prediction takes about <b>{duration(estimate.latency.value)}</b>
      {main && `, most of it on the ${UNIT_NAMES[main.unit as keyof typeof UNIT_NAMES]}`};{" "}
      {isBest
        ? `no setting is estimated faster than ${SETTING_NAMES[setting]}`
        : `${SETTING_NAMES[best[0]]} is estimated at ${duration(best[1].latency.value)}`}
      .
    </p>
  );
}
