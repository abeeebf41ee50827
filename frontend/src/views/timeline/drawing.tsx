import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Timeline as Lanes, ModuleSpan, Span } from "../../data/lanes";
import { duration, plural, share } from "../../format";
import { useReport } from "../../report";
import { useTheme } from "../../theme";
import { useWidth } from "../../ui/width";
import { drawOverview, drawScene, GAP, LANE, lanesTop, MODULE, OVERVIEW, sceneHeight } from "./draw";
import { clamp, type Range, scaled, spanIn } from "./range";
import { Sums } from "./sums";

/** What is under the pointer. */
type Hit = { span: Span } | { module: ModuleSpan } | null;
/** Pixels that a pointer moves before it drags. */
const DRAGGED = 4;

/** The lanes, which zoom to what is dragged over, and the whole in a strip. */
export function Drawing(props: { lanes: Lanes; modules: readonly ModuleSpan[] }) {
  const { lanes, modules } = props;
  const { select, selected } = useReport();
  const [ref, width] = useWidth<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const overview = useRef<HTMLCanvasElement>(null);
  const whole = { start: 0, seconds: lanes.seconds };
  const [view, setView] = useState<Range>(whole);
  const [marked, mark] = useState<Range | null>(null);
  const [hover, setHover] = useState<{ hit: Hit; x: number; y: number } | null>(null);
  const drag = useRef<{ x: number; from: number; start: number; moved: boolean; isMoving: boolean } | null>(null);
  useEffect(() => setView({ start: 0, seconds: lanes.seconds }), [lanes]);
  const labels = width < 560 ? 60 : 112;
  const drawn = Math.max(width - labels, 1);
  const theme = useTheme();
  // biome-ignore lint/correctness/useExhaustiveDependencies: the drawing takes its colours from the theme.
  useLayoutEffect(() => {
    const scene = { lanes, modules, view, selected, marked, width, labels };
    if (canvas.current) drawScene(canvas.current, scene);
    if (overview.current) drawOverview(overview.current, scene);
  }, [lanes, modules, view, selected, marked, width, labels, theme]);

  const show = (change: (old: Range) => Range) => setView((old) => clamp(change(old), lanes.seconds));
  const zoom = (factor: number, at = view.start + view.seconds / 2) => show((old) => scaled(old, factor, at));
  const move = (part: number) => show((old) => ({ ...old, start: old.start + part * old.seconds }));
  const all = () => setView(whole);
  const left = () => canvas.current?.getBoundingClientRect().left ?? 0;
  const timeAt = (clientX: number) => view.start + (Math.min(Math.max(clientX - left() - labels, 0), drawn) / drawn) * view.seconds;
  const hitAt = (event: PointerEvent): Hit => {
    const down = event.clientY - (canvas.current?.getBoundingClientRect().top ?? 0);
    const [time, reach] = [timeAt(event.clientX), (view.seconds / drawn) * 2];
    const module = modules.find((one) => one.depth === Math.floor(down / MODULE) && time >= one.start && time < one.start + one.seconds);
    if (down < lanesTop(modules)) return module ? { module } : null;
    const lane = lanes.lanes[Math.floor((down - lanesTop(modules)) / (LANE + GAP))];
    const span = lane ? spanIn(lane.spans, time, reach) : null;
    return span && { span };
  };
  useWheel(canvas, (event) => zoom(event.deltaY > 0 ? 1.25 : 0.8, timeAt(event.clientX)));
  const keys: Record<string, () => void> = {
    "+": () => zoom(0.7),
    "=": () => zoom(0.7),
    w: () => zoom(0.7),
    "-": () => zoom(1.4),
    s: () => zoom(1.4),
    ArrowLeft: () => move(-0.2),
    a: () => move(-0.2),
    ArrowRight: () => move(0.2),
    d: () => move(0.2),
    "0": all,
    Escape: all,
  };
  const release = (event: PointerEvent) => {
    const held = drag.current;
    drag.current = null;
    mark(null);
    if (held?.moved && marked) setView(clamp(marked, lanes.seconds));
    if (held?.moved) return;
    const hit = hitAt(event);
    if (hit && "module" in hit) setView(clamp(hit.module, lanes.seconds));
    else if (hit?.span.id) select(hit.span.id);
  };
  return (
    <div class="timeline" ref={ref}>
      <canvas
        ref={canvas}
        tabIndex={0}
        role="img"
        aria-label={`${lanes.origin}: ${lanes.lanes
          .map((lane) => `${lane.title} ${duration(lane.spans.reduce((sum, span) => sum + span.seconds, 0))}`)
          .join(", ")}. Plus and minus, or W and S, zoom; arrows, or A and D, move; 0 shows all.`}
        style={{ height: `${sceneHeight({ lanes, modules })}px` }}
        onKeyDown={(event) => {
          if (event.ctrlKey || event.metaKey || event.altKey || !keys[keyOf(event)]) return;
          keys[keyOf(event)]?.();
          event.preventDefault();
        }}
        onPointerDown={(event) => {
          drag.current = { x: event.clientX, from: timeAt(event.clientX), start: view.start, moved: false, isMoving: event.shiftKey };
          canvas.current?.setPointerCapture(event.pointerId);
        }}
        onPointerMove={(event) => {
          const held = drag.current;
          if (!held) {
            const box = canvas.current?.getBoundingClientRect();
            const hit = hitAt(event);
            setHover(hit && box ? { hit, x: event.clientX - box.left, y: event.clientY - box.top } : null);
            return;
          }
          setHover(null);
          held.moved ||= Math.abs(event.clientX - held.x) > DRAGGED;
          if (!held.moved) return;
          if (held.isMoving) show((old) => ({ ...old, start: held.start - ((event.clientX - held.x) / drawn) * old.seconds }));
          else mark(between(held.from, timeAt(event.clientX)));
        }}
        onPointerUp={release}
        onPointerCancel={() => {
          drag.current = null;
          mark(null);
        }}
        onPointerLeave={() => setHover(null)}
        onDblClick={all}
      />
      {hover && <Tip hit={hover.hit} total={lanes.seconds} x={Math.min(hover.x + 12, Math.max(width - 270, 0))} y={hover.y + 14} />}
      <Strip {...{ overview, view, width, labels, seconds: lanes.seconds }} onView={(next) => setView(clamp(next, lanes.seconds))} />
      <div class="zoom">
        <button type="button" class="quiet" aria-label="Zoom in" onClick={() => zoom(0.5)}>
          +
        </button>
        <button type="button" class="quiet" aria-label="Zoom out" onClick={() => zoom(2)}>
          −
        </button>
        <button type="button" class="quiet" onClick={all}>
          All
        </button>
        <span class="dim zoom-note">
          {view.seconds < lanes.seconds
            ? `${duration(view.seconds)} of ${duration(lanes.seconds)} shown`
            : "Drag over a part to enlarge it and sum it up; with Shift, to move."}
        </span>
      </div>
      <Sums lanes={lanes} view={view} />
    </div>
  );
}

/** Letters with or without capitals. */
const keyOf = ({ key }: KeyboardEvent): string => (key.length === 1 ? key.toLowerCase() : key);

const between = (one: number, other: number): Range => ({ start: Math.min(one, other), seconds: Math.abs(one - other) });

/** The whole time; what is dragged over becomes the view, and a click moves it. */
function Strip(props: {
  overview: { current: HTMLCanvasElement | null };
  view: Range;
  width: number;
  labels: number;
  seconds: number;
  onView: (view: Range) => void;
}) {
  const { view, seconds } = props;
  const held = useRef<{ at: number; offset: number | null } | null>(null);
  const timeAt = (event: PointerEvent & { currentTarget: HTMLCanvasElement }) => {
    const right = event.clientX - event.currentTarget.getBoundingClientRect().left - props.labels;
    return Math.min(Math.max(right / Math.max(props.width - props.labels, 1), 0), 1) * seconds;
  };
  return (
    <canvas
      ref={props.overview}
      class="timeline-overview"
      role="img"
      aria-label="The whole time, with the visible part"
      style={{ height: `${OVERVIEW}px` }}
      onPointerDown={(event) => {
        const at = timeAt(event);
        const isInside = view.seconds < seconds && at >= view.start && at <= view.start + view.seconds;
        held.current = { at, offset: isInside ? at - view.start : null };
        event.currentTarget.setPointerCapture(event.pointerId);
      }}
      onPointerMove={(event) => {
        if (!held.current) return;
        const { at, offset } = held.current;
        const now = timeAt(event);
        if (offset !== null) props.onView({ ...view, start: now - offset });
        else if (Math.abs(now - at) > seconds / 200) props.onView(between(at, now));
      }}
      onPointerUp={(event) => {
        const pressed = held.current;
        held.current = null;
        if (pressed && pressed.offset === null && Math.abs(timeAt(event) - pressed.at) <= seconds / 200)
          props.onView({ ...view, start: pressed.at - view.seconds / 2 });
      }}
      onPointerCancel={() => {
        held.current = null;
      }}
    />
  );
}

/** What a span or a module is, and its time. */
function Tip(props: { hit: Hit; total: number; x: number; y: number }) {
  const { hit, total } = props;
  const { table } = useReport();
  if (!hit) return null;
  const { seconds } = "module" in hit ? hit.module : hit.span;
  const figures = `${duration(seconds)} · ${share(seconds / total)}`;
  return (
    <div class="tip wide" style={{ left: `${props.x}px`, top: `${props.y}px` }}>
      {"module" in hit ? (
        <>
          <b>{hit.module.title}</b>
          <br />
          from its first operation to its last: {figures}
        </>
      ) : (
        <>
          {hit.span.ops.slice(0, 1).map((op) => (
            <>
              <b>{table.layer[op] || table.name[op] || table.id[op]}</b>
              <br />
            </>
          ))}
          {(hit.span.times ?? 1) > 1 && `${hit.span.times} × `}
          {hit.span.label} · {figures}
          {hit.span.ops.length > 1 && ` · ${plural(hit.span.ops.length, "operation")} together`}
          {hit.span.id && (
            <>
              {" "}
              <code>{hit.span.id}</code>
            </>
          )}
        </>
      )}
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
