import { scaleLog } from "d3-scale";
import { useMemo, useState } from "preact/hooks";
import { UNIT_NAMES } from "../data/words";
import { estimatedWork, intensity, measuredWork, rate, type Timed } from "../data/work";
import { count, duration } from "../format";
import { useReport } from "../report";
import { Choice } from "../ui/choice";
import { OriginTag } from "../ui/origin";
import { Section } from "../ui/section";
import { useWidth } from "../ui/width";

type Source = "measured" | "estimated";
const HEIGHT = 340;
const EDGE = { left: 76, right: 18, top: 14, bottom: 44 };

/** Arithmetic intensity against throughput: memory-bound work lies on the slope. */
export function Roofline() {
  const { measurement, table, groups, kernels, target, estimate } = useReport();
  const measured = useMemo(() => measuredWork(table, groups), [table, groups]);
  const estimated = useMemo(() => (estimate ? estimatedWork(table, kernels, estimate) : []), [table, kernels, estimate]);
  const sources = (
    [
      ["measured", "Measured"],
      ["estimated", target?.device ?? ""],
    ] as const
  ).filter(([source]) => (source === "measured" ? measured.length : estimated.length));
  const [wanted, choose] = useState<Source>("measured");
  const source = sources.some(([one]) => one === wanted) ? wanted : (sources[0]?.[0] ?? "measured");
  const points = source === "measured" ? measured : estimated;
  if (!points.length) return null;
  return (
    <Section
      id="roofline"
      title="Roofline"
      note={<OriginTag origin={source} on={source === "measured" ? measurement?.label : target?.device} />}
      actions={<Choice label="Times of" options={sources} value={source} onChange={choose} />}
    >
      <Plot points={points} />
      <p class="dim caption">
        Each point is one timed group or kernel; its size is its time. FLOPs and bytes are those of the file, without caches. The lines are
        the highest rates that any point here reaches, not limits of the machine.
      </p>
    </Section>
  );
}

function Plot(props: { points: readonly Timed[] }) {
  const { select } = useReport();
  const [ref, width] = useWidth<HTMLDivElement>();
  const { points } = props;
  const [top, slope] = [Math.max(...points.map(rate)), Math.max(...points.map((point) => point.bytes / point.seconds))];
  const x = scaleLog(padded(points.map(intensity)), [EDGE.left, width - EDGE.right]);
  const y = scaleLog(padded([...points.map(rate), top]), [HEIGHT - EDGE.bottom, EDGE.top]);
  const [left, right] = x.domain() as [number, number];
  const lowest = y.domain()[0] ?? 1;
  const start = Math.max(left, lowest / slope);
  const knee = Math.min(Math.max(top / slope, start), right);
  const roof = `M${x(start)},${y(Math.max(start * slope, lowest))}L${x(knee)},${y(Math.min(top, knee * slope))}H${x(right)}`;
  const longest = Math.max(...points.map((point) => point.seconds));
  // The shortest last, so that none is hidden.
  const ordered = thinned(
    [...points].sort((a, b) => b.seconds - a.seconds),
    (point) => `${Math.round(x(intensity(point)) / 3)},${Math.round(y(rate(point)) / 3)}`,
  );
  return (
    <div ref={ref}>
      <svg
        width={width}
        height={HEIGHT}
        class="roofline"
        role="img"
        aria-label={`Roofline of ${points.length} points; the highest rate is ${count(top)} FLOP/s, the highest bandwidth ${count(slope)} B/s`}
      >
        <Axes x={x} y={y} width={width} />
        <path class="roof" d={roof} />
        {ordered.map((point) => (
          // biome-ignore lint/a11y/noStaticElementInteractions: the layer table gives the keyboard the same selection.
          <circle
            key={point.ids[0]}
            class={`point ${point.unit ? `fill-${point.unit}` : "fill-measured"}`}
            cx={x(intensity(point))}
            cy={y(rate(point))}
            r={3 + 9 * Math.sqrt(point.seconds / longest)}
            onClick={() => select(point.ids[0] ?? null)}
          >
            <title>{describe(point)}</title>
          </circle>
        ))}
      </svg>
    </div>
  );
}

/** Up to this many points are all drawn; beyond it, overlapping points are drawn once. */
const MANY = 1500;

function thinned(points: readonly Timed[], place: (point: Timed) => string): readonly Timed[] {
  if (points.length <= MANY) return points;
  const taken = new Set<string>();
  return points.filter((point) => {
    const key = `${place(point)} ${point.unit}`;
    return !taken.has(key) && taken.add(key);
  });
}

type Scale = ReturnType<typeof scaleLog<number, number>>;

function Axes(props: { x: Scale; y: Scale; width: number }) {
  const { x, y, width } = props;
  return (
    <g>
      {powers(y).map((tick) => (
        <g key={`y${tick}`}>
          <line class="grid" x1={EDGE.left} x2={width - EDGE.right} y1={y(tick)} y2={y(tick)} />
          <text class="tick" x={EDGE.left - 6} y={y(tick)} dy="0.32em" text-anchor="end">
            {count(tick)}
          </text>
        </g>
      ))}
      {powers(x).map((tick) => (
        <g key={`x${tick}`}>
          <line class="grid" x1={x(tick)} x2={x(tick)} y1={EDGE.top} y2={HEIGHT - EDGE.bottom} />
          <text class="tick" x={x(tick)} y={HEIGHT - EDGE.bottom + 16} text-anchor="middle">
            {tick >= 1 ? count(tick) : tick}
          </text>
        </g>
      ))}
      <text class="tick" x={(EDGE.left + width - EDGE.right) / 2} y={HEIGHT - 6} text-anchor="middle">
        FLOPs per byte moved
      </text>
      <text class="tick" transform={`translate(13 ${(HEIGHT - EDGE.bottom + EDGE.top) / 2}) rotate(-90)`} text-anchor="middle">
        FLOPs per second
      </text>
    </g>
  );
}

function padded(values: readonly number[]): [number, number] {
  return [Math.min(...values) / 1.6, Math.max(...values) * 1.6];
}

function powers(scale: Scale): number[] {
  const [low, high] = scale.domain() as [number, number];
  const found = [];
  for (let exponent = Math.ceil(Math.log10(low)); exponent <= Math.log10(high); exponent++) found.push(Number(`1e${exponent}`));
  return found;
}

function describe(point: Timed): string {
  const where = point.unit ? `, ${UNIT_NAMES[point.unit]}` : "";
  return `${point.label}\n${point.ids[0]}${where}\n${duration(point.seconds)}: ${count(rate(point))} FLOP/s at ${intensity(point).toPrecision(3)} FLOPs per byte`;
}
