import { useMemo, useState } from "preact/hooks";
import { intervalReach, ratioText } from "../data/comparison";
import type { Variant, VariantForecast, VariantsForm } from "../data/schema";
import {
  type Cost,
  failuresOf,
  forecastKey,
  forecastKeys,
  forecastOf,
  notesOf,
  type Point,
  pointsOf,
  sameClass,
  timesBySize,
  worstOutput,
} from "../data/variants";
import { bytes, duration, fixed, plural } from "../format";
import { Choice } from "../ui/choice";
import { OriginTag } from "../ui/origin";
import { ScrollRegion } from "../ui/scroll";
import { Section } from "../ui/section";
import { Interval } from "./compare/changes";
import { Scatter } from "./scatter";

/** What the chart shows: latencies by size, or a cost by closeness to the original. */
type Shown = Cost | "time";
const COSTS: readonly (readonly [Shown, string])[] = [
  ["time", "Time by size"],
  ["size", "Size"],
  ["latency", "Latency"],
  ["memory", "Memory"],
];

/** Latency against size, or a cost against closeness to the original; the line joins the variants that no other one beats. */
export function VariantChart(props: { report: VariantsForm }) {
  const { report } = props;
  const keys = useMemo(() => forecastKeys(report), [report]);
  const [cost, chooseCost] = useState<Shown>(keys.length ? "time" : "size");
  const [key, chooseKey] = useState(keys[0] ?? "");
  const points = useMemo(() => (cost === "time" ? [] : pointsOf(report, cost, key)), [report, cost, key]);
  const costs = keys.length ? COSTS : COSTS.slice(1, 2);
  return (
    <Section
      id="chart"
      title={cost === "time" ? "Time against size" : "Cost against quality"}
      note={cost === "size" ? null : <OriginTag origin="estimated" on={key} />}
      actions={
        <>
          <Choice label="Cost" options={costs} value={cost} onChange={chooseCost} />
          {cost !== "size" && <Choice label="Device" options={keys.map((one) => [one, one] as const)} value={key} onChange={chooseKey} />}
        </>
      }
    >
      {cost === "time" ? (
        <TimesBySize report={report} device={key} />
      ) : points.length > 1 ? (
        <Plot points={points} cost={cost} />
      ) : (
        <p class="dim">No outputs were compared.</p>
      )}
      <p class="dim caption">
        {cost === "time" ? "Hollow: other classes than the original. " : `PSNR of the output with the least, ${comparedOn(report)}. `}
        The line joins the variants that no other one surpasses in both.
      </p>
    </Section>
  );
}

function comparedOn(report: VariantsForm): string {
  const known = report.variants.find((variant) => variant.difference)?.difference;
  if (!known) return "not compared";
  return `on ${plural(known.samples, known.synthetic ? "synthetic input" : "input")}, computed where this report was made`;
}

function TimesBySize(props: { report: VariantsForm; device: string }) {
  const marks = timesBySize(props.report, props.device).map(({ name, size, seconds, isBest, isOff }) => ({
    ...{ id: name, name, x: size, y: seconds, isBest, isOff, title: `${name}: ${bytes(size)}, ${duration(seconds)}` },
  }));
  return <Scatter marks={marks} noun="variant" formatX={bytes} formatY={duration} isFromZero />;
}

function Plot(props: { points: readonly Point[]; cost: Cost }) {
  const format = props.cost === "latency" ? duration : bytes;
  const marks = props.points.map(({ name, cost, psnr, isBest }) => ({
    ...{ id: name, name, x: cost, y: psnr, isBest },
    title: `${name}: ${format(cost)}, ${psnr === null ? "equal outputs" : `${fixed(psnr, 1)} dB`}`,
  }));
  return <Scatter marks={marks} noun="variant" formatX={format} formatY={(psnr) => `${psnr} dB`} above="equal" />;
}

/** Size and outputs of all variants, one row each. */
export function VariantTable(props: { report: VariantsForm }) {
  const { variants } = props.report;
  const whole = variants[0]?.size_bytes ?? null;
  const hasClasses = variants.some(({ difference }) => difference && sameClass(difference) !== null);
  return (
    <Section id="variants" title="Size and outputs">
      <ScrollRegion label="Variants">
        <table class="plain overview">
          <thead>
            <tr>
              <th scope="col">Variant</th>
              <th scope="col" class="number">
                Size
              </th>
              <th scope="col">Weights</th>
              <th scope="col" class="number">
                PSNR
              </th>
              <th scope="col" class="number">
                Largest difference
              </th>
              {hasClasses && (
                <th scope="col" class="number">
                  Same class
                </th>
              )}
              <th scope="col">Needs</th>
            </tr>
          </thead>
          <tbody>
            {variants.map((variant) => (
              <VariantRow key={variant.name} variant={variant} whole={whole} hasClasses={hasClasses} />
            ))}
          </tbody>
        </table>
      </ScrollRegion>
      {failuresOf(props.report).map(([failure, names]) => (
        <p key={failure} class="row-error caption">
          <b>{names.join(", ")}:</b> {failure}
        </p>
      ))}
      {notesOf(props.report).map(([note, names]) => (
        <p key={note} class="dim caption">
          {names.join(", ")}: {note}
        </p>
      ))}
    </Section>
  );
}

function VariantRow(props: { variant: Variant; whole: number | null; hasClasses: boolean }) {
  const { variant, whole } = props;
  const { difference } = variant;
  const worst = difference ? worstOutput(difference) : null;
  const same = difference ? sameClass(difference) : null;
  return (
    <tr>
      <th scope="row" class="label" title={variant.title}>
        {variant.name}
      </th>
      <td class="number">
        {variant.size_bytes === null ? "–" : bytes(variant.size_bytes)}
        {variant.size_bytes !== null && whole ? <div class="faint">{fixed((variant.size_bytes / whole) * 100, 0)} %</div> : null}
      </td>
      <td>{variant.storage}</td>
      <td class="number">{difference ? (worst?.psnr_db == null ? "equal" : `${fixed(worst.psnr_db, 1)} dB`) : ""}</td>
      <td class="number">{worst?.max_abs == null ? "" : worst.max_abs.toPrecision(3)}</td>
      {props.hasClasses && <td class="number">{same === null ? "" : `${fixed(same * 100, 0)} %`}</td>}
      <td>{variant.platforms.split(",")[0]}</td>
    </tr>
  );
}

/** What is planned and estimated on each device. */
export function VariantForecasts(props: { report: VariantsForm }) {
  const { report } = props;
  return (
    <>
      {forecastKeys(report).map((key, index) => (
        <Section
          key={key}
          id={`device-${index}`}
          title={key}
          note={
            <>
              <OriginTag origin="planned" />
              <OriginTag origin="estimated" />
            </>
          }
        >
          <ScrollRegion label={`Estimates on ${key}`}>
            <table class="plain overview">
              <thead>
                <tr>
                  <th scope="col">Variant</th>
                  <th scope="col" class="number">
                    Latency
                  </th>
                  <th scope="col" class="number">
                    Change
                  </th>
                  <th scope="col">Against the original</th>
                  <th scope="col" class="number">
                    Operations on the Neural Engine
                  </th>
                  <th scope="col" class="number">
                    Of the time
                  </th>
                  <th scope="col" class="number">
                    Memory
                  </th>
                  {hasLoads(report, key) && (
                    <th scope="col" class="number">
                      First load
                    </th>
                  )}
                </tr>
              </thead>
              <tbody>
                {report.variants.map((variant) => {
                  const one = forecastOf(variant, key);
                  return (
                    one && (
                      <ForecastRow
                        key={variant.name}
                        name={variant.name}
                        forecast={one}
                        hasLoads={hasLoads(report, key)}
                        reach={reach(report, key)}
                      />
                    )
                  );
                })}
              </tbody>
            </table>
          </ScrollRegion>
          <p class="dim caption">
            Below latencies and changes: the interval that holds 80 % of the cases. Memory is stored weights, states and live results, from
            the file.
          </p>
        </Section>
      ))}
    </>
  );
}

/** Whether the first load of any variant is known on a device. */
const hasLoads = (report: VariantsForm, key: string): boolean => report.variants.some((variant) => forecastOf(variant, key)?.answer.load);

/** The reach of the intervals of all changes on a device. */
const reach = (report: VariantsForm, key: string): number =>
  intervalReach(report.variants.flatMap((variant) => forecastOf(variant, key)?.verdict?.ratio ?? []));

function ForecastRow(props: { name: string; forecast: VariantForecast; hasLoads: boolean; reach: number }) {
  const { name, forecast } = props;
  const { answer, verdict, memory, operations } = forecast;
  const { latency, load } = answer;
  const ratio = verdict?.ratio;
  const total = Object.values(operations).reduce((sum, one) => sum + (one ?? 0), 0);
  return (
    <tr>
      <th scope="row" class="label" title={forecastKey(forecast)}>
        {name}
      </th>
      <td class="number">
        {latency && `${answer.is_at_least ? "≥ " : ""}${duration(latency.value)}`}
        {latency && (
          <div class="faint">
            {duration(latency.low)} – {duration(latency.high)}
          </div>
        )}
      </td>
      <td class="number">
        {ratio && ratioText(ratio.value)}
        {ratio && <Interval change={{ ...ratio, verdict: verdict.verdict }} reach={props.reach} />}
      </td>
      <td>
        {verdict && (
          <>
            {verdict.verdict}
            <div class="faint">{[...verdict.hazards, ...verdict.doubts].join("; ")}</div>
          </>
        )}
      </td>
      <td class="number">
        {operations.neural_engine ?? 0} of {total}
      </td>
      <td class="number">{fixed((answer.units.neural_engine ?? 0) * 100, 0)} %</td>
      <td class="number">{memory.peak ? bytes(memory.peak.value) : "–"}</td>
      {props.hasLoads && <td class="number">{load ? duration(load.first_s.value) : "–"}</td>}
    </tr>
  );
}
