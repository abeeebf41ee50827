import { scaleLinear } from "d3-scale";
import { measuredPhases, measurementName, type PhaseRow, phaseRows, pythonNote, sortFindings } from "../data/profile";
import type { Phase, StageTiming } from "../data/schema";
import { kindName } from "../data/words";
import { bytes, duration, plural, share } from "../format";
import { useReport } from "../report";
import { OriginTag } from "../ui/origin";
import { ScrollRegion } from "../ui/scroll";
import { Section } from "../ui/section";
import { useWidth } from "../ui/width";
import { FindingList } from "./findings";

/** Compile, load and predict: summary statistics, and every sample in order. */
export function Phases() {
  const { measurement, measuredBy } = useReport();
  if (!measurement) return null;
  const phases = measuredPhases(measurement);
  const note = pythonNote(measurement);
  return (
    <Section id="times" title="Times" note={<OriginTag origin="measured" on={measuredBy} />}>
      <Measurements />
      {phases.length > 0 && (
        <ScrollRegion label="Statistics of the phases">
          <table class="plain numbers">
            <thead>
              <tr>
                <th scope="col">Phase</th>
                {["runs", "min", "median", "mean", "p95", "p99", "max", "std", "drift"].map((title) => (
                  <th scope="col" key={title} title={title === "drift" ? DRIFT : undefined}>
                    {title}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {phaseRows(measurement).map((row) => (
                <StatisticsRow key={row.name} row={row} />
              ))}
            </tbody>
          </table>
        </ScrollRegion>
      )}
      {note && <p class="caption dim">{note}</p>}
      <div class="phases">
        {phases
          .filter(([, phase]) => phase.samples_s.length > 1)
          .map(([name, phase]) => (
            <PhaseChart key={name} name={name} phase={phase} />
          ))}
      </div>
      <Stages stages={measurement.stages} />
      <FindingList findings={sortFindings(measurement.findings).filter((one) => one.severity !== "error")} />
    </Section>
  );
}

/** The measurements side by side, where there are several. */
function Measurements() {
  const { measurements, measurement, chooseMeasurement } = useReport();
  if (measurements.length < 2) return null;
  const cell = (phase: Phase | null, name: "median" | "p95") => <td>{phase ? duration(phase.statistics[name]) : "–"}</td>;
  return (
    <ScrollRegion label="Measurements side by side">
      <table class="plain numbers measurements">
        <thead>
          <tr>
            <th scope="col">Measurement</th>
            {["predict", "p95", "load", "compile", "memory"].map((title) => (
              <th scope="col" key={title} title={title === "memory" ? "Largest resident memory of the process" : undefined}>
                {title}
              </th>
            ))}
            <th scope="col">
              <span class="hidden">Choose</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {measurements.map((one) => {
            const name = measurementName(measurements, one);
            return (
              <tr key={name} class={one === measurement ? "shown" : ""}>
                <th scope="row">{name}</th>
                {cell(one.predict, "median")}
                {cell(one.predict, "p95")}
                {cell(one.load, "median")}
                {cell(one.compile, "median")}
                <td>{one.peak_memory_bytes === null ? "–" : bytes(one.peak_memory_bytes)}</td>
                <td>
                  {one === measurement ? (
                    <span class="faint">shown</span>
                  ) : (
                    <button
                      type="button"
                      class="quiet"
                      aria-label={`Show ${name} everywhere on the page`}
                      onClick={() => chooseMeasurement(one)}
                    >
                      Show
                    </button>
                  )}
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </ScrollRegion>
  );
}

/** The time of a model of a pipeline with the conversion of its inputs; null where it was not run. */
const stageSeconds = ({ run_s: run, convert_s: convert }: StageTiming): number | null => (run === null ? null : run + (convert ?? 0));

/** The times of the models of a pipeline. */
function Stages(props: { stages: StageTiming[] }) {
  if (props.stages.length === 0) return null;
  const total = props.stages.reduce((sum, stage) => sum + (stageSeconds(stage) ?? 0), 0);
  const cell = (seconds: number | null) => <td>{seconds === null ? "–" : duration(seconds)}</td>;
  return (
    <ScrollRegion label="Times of the models of the pipeline">
      <table class="plain numbers stages">
        <thead>
          <tr>
            <th scope="col">Model of the pipeline</th>
            <th scope="col" title="Median in predictions of the pipeline, without the engine's profiler; conversion included">
              Time
            </th>
            <th scope="col">Share</th>
            <th scope="col" title="Conversion of its inputs from the outputs of the models before it">
              Conversion
            </th>
            <th scope="col" title="The sum over its operations, from profiled runs">
              Operations
            </th>
          </tr>
        </thead>
        <tbody>
          {props.stages.map((stage) => (
            <tr key={stage.name}>
              <th scope="row">
                {stage.name} <span class="faint">{kindName(stage.kind)}</span>
                {stage.absent && <div class="faint">not run: {stage.absent}</div>}
              </th>
              {cell(stageSeconds(stage))}
              <td>{total > 0 && stage.run_s !== null ? share((stageSeconds(stage) ?? 0) / total) : ""}</td>
              {cell(stage.convert_s)}
              {cell(stage.operations_s)}
            </tr>
          ))}
        </tbody>
      </table>
    </ScrollRegion>
  );
}

const DRIFT = "Median of the last third of the samples relative to that of the first third";

function StatisticsRow(props: { row: PhaseRow }) {
  const { name, statistics: s, samples_s } = props.row;
  return (
    <tr>
      <th scope="row">{name}</th>
      <td>{s.count}</td>
      {(["min", "median", "mean", "p95", "p99", "max"] as const).map((name) => (
        <td key={name} class={name === "median" ? "strong" : ""}>
          {duration(s[name])}
        </td>
      ))}
      <td>{s.count > 1 ? duration(s.std) : "–"}</td>
      <td>{drift(samples_s)}</td>
    </tr>
  );
}

/** `+1.2 %`; a dash where a third has fewer than three samples. */
function drift(samples: number[]): string {
  const third = Math.floor(samples.length / 3);
  if (third < 3) return "–";
  const [first, last] = [median(samples.slice(0, third)), median(samples.slice(-third))];
  const change = last / first - 1;
  return `${change < 0 ? "−" : "+"}${share(Math.abs(change))}`;
}

function median(values: number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? 0;
  return sorted.length % 2 ? upper : (upper + (sorted[middle - 1] ?? upper)) / 2;
}

const HEIGHT = 150;
const EDGE = { left: 58, right: 64, top: 10, bottom: 22 };
const BINS = 24;

/** Samples in order, with their histogram on the same scale. */
function PhaseChart(props: { name: string; phase: Phase }) {
  const [ref, width] = useWidth<HTMLDivElement>();
  const { samples_s: samples, warmups_s: warmups, statistics: s } = props.phase;
  const spread = Math.max(s.max - s.min, s.median * 0.02);
  // Warm-ups may be many times slower: the scale is that of the samples, and slower ones are drawn at its end.
  const low = Math.min(s.min, ...warmups);
  const y = scaleLinear([Math.max(0, low - spread * 0.08), s.max + spread * 0.08], [HEIGHT - EDGE.bottom, EDGE.top]);
  const total = warmups.length + samples.length;
  const x = scaleLinear([-0.5, Math.max(total - 0.5, 0.5)], [EDGE.left, width - EDGE.right]);
  const top = y.domain()[1] ?? s.max;
  const seam = x(warmups.length - 0.5);
  // The labels of close ticks can be equal.
  const ticks = y.ticks(4).filter((tick, index, all) => index === 0 || duration(tick) !== duration(all[index - 1] ?? tick));
  return (
    <figure class="chart" ref={ref}>
      <figcaption>
        <b>{props.name}</b> every sample in order
        {warmups.length > 0 && `, after ${plural(warmups.length, "warm-up")}, not counted`}
      </figcaption>
      <svg
        width={width}
        height={HEIGHT}
        role="img"
        aria-label={`${props.name}: ${s.count} samples from ${duration(s.min)} to ${duration(s.max)}, median ${duration(s.median)}`}
      >
        {ticks.map((tick) => (
          <g key={tick}>
            <line class="grid" x1={EDGE.left} x2={width - EDGE.right} y1={y(tick)} y2={y(tick)} />
            <text class="tick" x={EDGE.left - 6} y={y(tick)} dy="0.32em" text-anchor="end">
              {duration(tick)}
            </text>
          </g>
        ))}
        {warmups.length > 0 && (
          <rect
            class="warm-zone"
            x={EDGE.left}
            width={Math.max(seam - EDGE.left, 0)}
            y={EDGE.top}
            height={HEIGHT - EDGE.top - EDGE.bottom}
          />
        )}
        <line class="median" x1={seam} x2={width - EDGE.right} y1={y(s.median)} y2={y(s.median)} />
        <path class="dots warm" d={dots(warmups.map((value, index) => [x(index), y(Math.min(value, top))]))} />
        <path class="dots" d={dots(samples.map((value, index) => [x(index + warmups.length), y(value)]))} />
        {warmups.some((value) => value > top) && (
          <text class="tick" x={EDGE.left + 3} y={EDGE.top + 10}>
            up to {duration(Math.max(...warmups))}
          </text>
        )}
        <Histogram samples={samples} y={y} x={width - EDGE.right + 8} width={EDGE.right - 10} />
        <text class="tick" x={(seam + width - EDGE.right) / 2} y={HEIGHT - 6} text-anchor="middle">
          sample 1 … {samples.length}
        </text>
      </svg>
    </figure>
  );
}

/** One path for all points, which stays fast for thousands of them. */
const dots = (points: [number, number][]): string => points.map(([x, y]) => `M${x.toFixed(1)},${y.toFixed(1)}h0`).join("");

function Histogram(props: { samples: number[]; y: (value: number) => number; x: number; width: number }) {
  const [low, high] = [Math.min(...props.samples), Math.max(...props.samples)];
  if (props.samples.length < 5 || low === high) return null;
  const bins = new Array<number>(BINS).fill(0);
  for (const value of props.samples) {
    const bin = Math.min(Math.floor(((value - low) / (high - low)) * BINS), BINS - 1);
    bins[bin] = (bins[bin] ?? 0) + 1;
  }
  const most = Math.max(...bins);
  const step = (high - low) / BINS;
  return (
    <g class="histogram">
      {bins.map((number, bin) => {
        const [upper, lower] = [props.y(low + (bin + 1) * step), props.y(low + bin * step)];
        return number ? (
          <rect key={upper} x={props.x} y={upper} width={(number / most) * props.width} height={Math.max(lower - upper - 0.5, 0.5)} />
        ) : null;
      })}
    </g>
  );
}
