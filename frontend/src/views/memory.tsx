import { scaleLinear } from "d3-scale";
import { useMemo, useState } from "preact/hooks";
import { bytes, plural } from "../format";
import { useReport } from "../report";
import { OriginTag } from "../ui/origin";
import { Section } from "../ui/section";
import { useWidth } from "../ui/width";

const HEIGHT = 190;
const EDGE = { left: 70, right: 18, top: 22, bottom: 26 };

/** The bytes of live values at each operation. */
export function Memory() {
  const { table, model } = useReport();
  const live = table.live_bytes;
  const peak = useMemo(() => live.reduce<number>((best, value, index) => ((value ?? 0) > (live[best] ?? 0) ? index : best), 0), [live]);
  const [at, setAt] = useState<number | null>(null);
  const shown = at ?? peak;
  const unknown = live.filter((value) => value === null).length;
  return (
    <Section id="memory" title="Memory of live values" note={<OriginTag origin="declared" />}>
      <p class="dim">
        At most <b>{bytes(live[peak] ?? 0)}</b> of values are live at once, in addition to {bytes(model.weights_bytes)} of weights.
        {unknown > 0 && ` Sizes are unknown before run time for ${plural(unknown, "operation")}.`} The most are live at{" "}
        <Operation index={peak} />
      </p>
      <Curve live={live} shown={shown} onPoint={setAt} />
      <p class="dim caption">
        {at !== null && (
          <>
            Here: {bytes(live[at] ?? 0)} while <Operation index={at} /> runs.{" "}
          </>
        )}
        A value is live from the operation that produces it to the last one that reads it, at the file's own precision. A runtime that works
        in place or splits values needs less.
      </p>
    </Section>
  );
}

function Operation(props: { index: number }) {
  const { table, select } = useReport();
  const id = table.id[props.index] ?? "";
  return (
    <button type="button" class="link" onClick={() => select(id)}>
      {table.layer[props.index] || table.name[props.index] || table.type[props.index]}
    </button>
  );
}

function Curve(props: { live: readonly (number | null)[]; shown: number; onPoint: (index: number | null) => void }) {
  const { live, shown } = props;
  const [ref, width] = useWidth<HTMLDivElement>();
  const { highest, x, y, path } = useMemo(() => {
    const highest = live.reduce<number>((most, value) => Math.max(most, value ?? 0), 1);
    const x = scaleLinear([0, Math.max(live.length, 1)], [EDGE.left, width - EDGE.right]);
    const y = scaleLinear([0, highest * 1.05], [HEIGHT - EDGE.bottom, EDGE.top]);
    return { highest, x, y, path: area(steps(live, Math.floor(width)), x, y) };
  }, [live, width]);
  const point = (event: PointerEvent) => {
    const box = (event.currentTarget as Element).getBoundingClientRect();
    const index = Math.floor(x.invert(event.clientX - box.left));
    props.onPoint(index >= 0 && index < live.length ? index : null);
  };
  return (
    <div ref={ref}>
      <svg
        width={width}
        height={HEIGHT}
        class="memory"
        role="img"
        aria-label={`Live bytes over ${live.length} operations, at most ${bytes(highest)}`}
        onPointerMove={point}
        onPointerLeave={() => props.onPoint(null)}
      >
        {y.ticks(4).map((tick) => (
          <g key={tick}>
            <line class="grid" x1={EDGE.left} x2={width - EDGE.right} y1={y(tick)} y2={y(tick)} />
            <text class="tick" x={EDGE.left - 6} y={y(tick)} dy="0.32em" text-anchor="end">
              {bytes(tick)}
            </text>
          </g>
        ))}
        <path class="memory-area" d={path} />
        <line class="memory-cursor" x1={x(shown + 0.5)} x2={x(shown + 0.5)} y1={EDGE.top} y2={HEIGHT - EDGE.bottom} />
        <circle class="memory-point" cx={x(shown + 0.5)} cy={y(live[shown] ?? 0)} r={4} />
        <text class="tick" x={(EDGE.left + width - EDGE.right) / 2} y={HEIGHT - 6} text-anchor="middle">
          operation 1 … {live.length}
        </text>
      </svg>
    </div>
  );
}

/** `[from, to, bytes]`: at most one step per pixel, each as high as its highest operation. */
function steps(live: readonly (number | null)[], most: number): [number, number, number][] {
  const size = Math.max(1, Math.ceil(live.length / Math.max(most, 1)));
  const found: [number, number, number][] = [];
  for (let from = 0; from < live.length; from += size) {
    const to = Math.min(from + size, live.length);
    found.push([from, to, Math.max(...live.slice(from, to).map((value) => value ?? 0))]);
  }
  return found;
}

function area(found: [number, number, number][], x: (value: number) => number, y: (value: number) => number): string {
  const upper = found.map(([from, to, value]) => `L${x(from).toFixed(1)},${y(value).toFixed(1)}H${x(to).toFixed(1)}`).join("");
  const last = found.at(-1)?.[1] ?? 0;
  return `M${x(0)},${y(0)}${upper}L${x(last)},${y(0)}Z`;
}
