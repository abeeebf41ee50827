import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { estimatedTimeline, type Timeline as Lanes, measuredTimeline, plannedTimeline, type Span } from "../data/lanes";
import type { Origin } from "../data/schema";
import { UNIT_SHORT } from "../data/words";
import { duration, plural } from "../format";
import { useReport } from "../report";
import { useTheme } from "../theme";
import { drawTimeAxis, prepare } from "../ui/canvas";
import { Choice } from "../ui/choice";
import { OriginTag } from "../ui/origin";
import { Section } from "../ui/section";
import { useWidth } from "../ui/width";

const [LANE, GAP, AXIS, LABELS] = [34, 8, 24, 112];
/** Spans narrower than this many pixels are merged with their neighbours. */
const LEAST = 0.6;

/** One prediction over time, a lane for each compute unit. */
export function Timeline() {
  const { measuredBy, rows, table, groups, kernels, target, placement, estimate } = useReport();
  const measured = useMemo(() => (groups.length ? measuredTimeline(table, groups) : null), [table, groups]);
  const planned = useMemo(() => (placement ? plannedTimeline(rows.all, placement) : null), [rows, placement]);
  const estimated = useMemo(() => (estimate ? estimatedTimeline(table, kernels, estimate) : null), [table, kernels, estimate]);
  const known = [planned, estimated, measured].filter((one): one is Lanes => one !== null && one.seconds > 0);
  const [wanted, choose] = useState<Origin>("planned");
  const lanes = known.find((one) => one.origin === wanted) ?? known[0];
  if (!lanes) return null;
  const on = lanes.origin === "measured" ? measuredBy : target?.device;
  return (
    <Section
      id="timeline"
      title="Timeline"
      note={
        <>
          <OriginTag origin={lanes.origin} on={on} />
          {lanes.switches.length > 0 && <span>{plural(lanes.switches.length, "change")} of unit</span>}
        </>
      }
      actions={
        <Choice label="Times" options={known.map((one) => [one.origin, one.origin] as const)} value={lanes.origin} onChange={choose} />
      }
    >
      <Drawing key={lanes.origin} lanes={lanes} />
      <p class="dim caption">{lanes.omitted}</p>
    </Section>
  );
}

/** The visible time range. */
interface Window {
  start: number;
  seconds: number;
}

function Drawing(props: { lanes: Lanes }) {
  const { lanes } = props;
  const { select } = useReport();
  const [ref, width] = useWidth<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const [view, setView] = useState<Window>({ start: 0, seconds: lanes.seconds });
  const [hover, setHover] = useState<{ span: Span; x: number; y: number } | null>(null);
  const drag = useRef<{ x: number; start: number; moved: boolean } | null>(null);
  useEffect(() => setView({ start: 0, seconds: lanes.seconds }), [lanes]);
  const height = AXIS + lanes.lanes.length * (LANE + GAP);
  const drawn = width - LABELS;

  const theme = useTheme();
  // biome-ignore lint/correctness/useExhaustiveDependencies: the drawing takes its colours from the theme.
  useEffect(() => {
    if (canvas.current) draw(canvas.current, lanes, view, width, height);
  }, [lanes, view, width, height, theme]);

  const zoom = (factor: number, at: number) => setView((old) => clamp(scaled(old, factor, at), lanes.seconds));
  const timeAt = (clientX: number) => {
    const box = canvas.current?.getBoundingClientRect();
    return view.start + ((clientX - (box?.left ?? 0) - LABELS) / drawn) * view.seconds;
  };
  const spanAt = (event: PointerEvent): Span | null => {
    const box = canvas.current?.getBoundingClientRect();
    const lane = lanes.lanes[Math.floor((event.clientY - (box?.top ?? 0)) / (LANE + GAP))];
    return lane ? spanIn(lane.spans, timeAt(event.clientX), (view.seconds / drawn) * 2) : null;
  };
  useWheel(canvas, (event) => zoom(event.deltaY > 0 ? 1.25 : 0.8, timeAt(event.clientX)));

  return (
    <div class="timeline" ref={ref}>
      <canvas
        ref={canvas}
        tabIndex={0}
        role="img"
        aria-label={`${lanes.origin}: ${lanes.lanes.map((lane) => `${lane.title} ${duration(lane.spans.reduce((sum, span) => sum + span.seconds, 0))}`).join(", ")}. Plus and minus zoom, arrows move.`}
        onKeyDown={(event) => {
          const step = view.seconds / 5;
          if (event.key === "+" || event.key === "=") zoom(0.7, view.start + view.seconds / 2);
          else if (event.key === "-") zoom(1.4, view.start + view.seconds / 2);
          else if (event.key === "ArrowLeft" || event.key === "ArrowRight")
            setView((old) => clamp({ ...old, start: old.start + (event.key === "ArrowLeft" ? -step : step) }, lanes.seconds));
          else return;
          event.preventDefault();
        }}
        onPointerDown={(event) => {
          drag.current = { x: event.clientX, start: view.start, moved: false };
          canvas.current?.setPointerCapture(event.pointerId);
        }}
        onPointerMove={(event) => {
          const held = drag.current;
          if (held) {
            held.moved ||= Math.abs(event.clientX - held.x) > 3;
            if (held.moved)
              setView((old) => clamp({ ...old, start: held.start - ((event.clientX - held.x) / drawn) * old.seconds }, lanes.seconds));
            return;
          }
          const span = spanAt(event);
          const box = canvas.current?.getBoundingClientRect();
          setHover(span && box ? { span, x: event.clientX - box.left, y: event.clientY - box.top } : null);
        }}
        onPointerUp={(event) => {
          const span = drag.current?.moved ? null : spanAt(event);
          drag.current = null;
          if (span?.id) select(span.id);
        }}
        onPointerLeave={() => setHover(null)}
      />
      {hover && (
        <div class="tip" style={{ left: `${Math.min(hover.x + 12, width - 230)}px`, top: `${hover.y + 14}px` }}>
          <b>{duration(hover.span.seconds)}</b> {hover.span.label} <code>{hover.span.id}</code>
        </div>
      )}
      <div class="zoom">
        <button type="button" class="quiet" aria-label="Zoom in" onClick={() => zoom(0.5, view.start + view.seconds / 2)}>
          +
        </button>
        <button type="button" class="quiet" aria-label="Zoom out" onClick={() => zoom(2, view.start + view.seconds / 2)}>
          −
        </button>
        <button type="button" class="quiet" onClick={() => setView({ start: 0, seconds: lanes.seconds })}>
          All
        </button>
      </div>
    </div>
  );
}

/** The wheel zooms only with Ctrl or ⌘ held, or on a pinch; otherwise it scrolls the page. */
function useWheel(target: { current: HTMLElement | null }, onZoom: (event: WheelEvent) => void) {
  const latest = useRef(onZoom);
  latest.current = onZoom;
  useEffect(() => {
    const element = target.current;
    const listen = (event: WheelEvent) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      latest.current(event);
    };
    element?.addEventListener("wheel", listen, { passive: false });
    return () => element?.removeEventListener("wheel", listen);
  }, [target]);
}

const scaled = (view: Window, factor: number, at: number): Window => ({
  start: at - (at - view.start) * factor,
  seconds: view.seconds * factor,
});

function clamp(view: Window, most: number): Window {
  const seconds = Math.min(Math.max(view.seconds, most / 20000), most);
  return { seconds, start: Math.min(Math.max(view.start, 0), most - seconds) };
}

/** The span at a time, or the one before it if it ended within `reach`. */
function spanIn(spans: readonly Span[], time: number, reach: number): Span | null {
  let [low, high] = [0, spans.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((spans[middle]?.start ?? 0) <= time) low = middle + 1;
    else high = middle;
  }
  const span = spans[low - 1];
  return span && time <= span.start + span.seconds + reach ? span : null;
}

function draw(canvas: HTMLCanvasElement, lanes: Lanes, view: Window, width: number, height: number) {
  const pen = prepare(canvas, width, height);
  if (!pen) return;
  const { context, colour } = pen;
  const x = (time: number) => LABELS + ((time - view.start) / view.seconds) * (width - LABELS);
  const axis = { from: view.start, to: view.start + view.seconds, left: LABELS, width, bottom: height - AXIS, height };
  drawTimeAxis(pen, axis, (tick, step) => (tick < step / 2 ? "0" : duration(tick)));
  context.save();
  context.beginPath();
  context.rect(LABELS, 0, width - LABELS, height);
  context.clip();
  lanes.lanes.forEach((lane, index) => {
    const top = index * (LANE + GAP);
    context.fillStyle = colour("raised");
    context.fillRect(LABELS, top, width - LABELS, LANE);
    const fill = lane.unit === "measured" ? "measured" : lane.unit === "neural_engine" ? "ne" : lane.unit;
    drawSpans(context, lane.spans, view, x, top, colour(fill), colour("surface"));
  });
  context.strokeStyle = colour("faint");
  context.setLineDash([2, 3]);
  for (const { at } of lanes.switches) {
    if (at < view.start || at > view.start + view.seconds) continue;
    context.beginPath();
    context.moveTo(x(at), 0);
    context.lineTo(x(at), height - AXIS);
    context.stroke();
  }
  context.restore();
  context.fillStyle = colour("dim");
  lanes.lanes.forEach((lane, index) => {
    const title = lane.unit !== "measured" && width < 560 ? UNIT_SHORT[lane.unit] : lane.title;
    context.fillText(title, 0, index * (LANE + GAP) + LANE / 2);
  });
}

function drawSpans(
  context: CanvasRenderingContext2D,
  spans: readonly Span[],
  view: Window,
  x: (time: number) => number,
  top: number,
  fill: string,
  edge: string,
) {
  const end = view.start + view.seconds;
  let [from, to] = [-1, -1];
  context.fillStyle = fill;
  const flush = () => {
    if (to > from) context.fillRect(from, top + 3, Math.max(to - from, LEAST), LANE - 6);
    from = to = -1;
  };
  for (const span of spans) {
    if (span.start + span.seconds < view.start) continue;
    if (span.start > end) break;
    const [left, right] = [x(span.start), x(span.start + span.seconds)];
    const isThin = right - left < 3;
    if (isThin && from >= 0 && left - to < LEAST) {
      to = right;
      continue;
    }
    flush();
    if (isThin) {
      [from, to] = [left, Math.max(right, left + LEAST)];
      continue;
    }
    context.fillRect(left, top + 3, right - left - 0.8, LANE - 6);
    if (right - left > 44) {
      context.save();
      context.beginPath();
      context.rect(left, top, right - left - 4, LANE);
      context.clip();
      context.fillStyle = edge;
      context.fillText(span.label, Math.max(left, LABELS) + 5, top + LANE / 2);
      context.restore();
    }
  }
  flush();
}
