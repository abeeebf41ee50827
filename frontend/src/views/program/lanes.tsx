import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { eventAt, firstAfter, type Recorded, type TraceLane } from "../../data/trace";
import { bytes, duration } from "../../format";
import { useTheme } from "../../theme";
import { type Colour, drawTimeAxis, hatch, type Pen, prepare } from "../../ui/canvas";
import { Choice } from "../../ui/choice";
import { Section } from "../../ui/section";
import { useWidth } from "../../ui/width";

const [LANE, GAP, AXIS] = [26, 4, 24];
const TITLES = { activity: "Activity", data: "Data", compute: "Compute" } as Record<string, string>;
/** Events narrower than this many pixels are merged with their neighbours. */
const LEAST = 0.8;
type Span = readonly [number, number];
const MODES = ["by model", "by lane", "by type"] as const;

/** The lanes of a recorded program. Dragging selects a span of time, which the totals then cover. */
export function Lanes(props: { recorded: Recorded; span: Span | null; select: (span: Span | null) => void; group: number | null }) {
  const { recorded, span, select, group } = props;
  const [mode, setMode] = useState<(typeof MODES)[number]>("by model");
  const lanes = useMemo(() => {
    const shown = recorded.lanes.filter((lane) => group === null || lane.group === group);
    if (mode === "by model") return shown;
    return regrouped(recorded, shown, (index) => (mode === "by lane" ? "" : (recorded.form.kinds[index]?.name ?? "")));
  }, [recorded, group, mode]);
  return (
    <Section
      id="lanes"
      title="Lanes"
      note={<span>drag to select a span of time; the totals then cover it</span>}
      actions={
        <>
          <Choice label="Tracks" options={MODES.map((one) => [one, one] as const)} value={mode} onChange={setMode} />
          {span && (
            <button type="button" class="quiet" onClick={() => select(null)}>
              Clear the selection ({duration(span[1] - span[0])})
            </button>
          )}
        </>
      }
    >
      <Drawing recorded={recorded} lanes={lanes} span={span} select={select} />
    </Section>
  );
}

/** Lanes of all models: one for each title that the kinds of their events get. */
function regrouped(recorded: Recorded, lanes: readonly TraceLane[], titleOf: (kind: number) => string): TraceLane[] {
  const titles = recorded.form.kinds.map((_, kind) => titleOf(kind));
  const found = new Map<string, { lane: string; title: string; events: number[]; longest: number }>();
  for (const { lane, events, longest } of lanes) {
    for (const index of events) {
      const title = titles[recorded.events.kind[index] ?? 0] ?? "";
      const one = found.get(`${lane} ${title}`) ?? { lane, title, events: [], longest: 0 };
      found.set(`${lane} ${title}`, one);
      one.events.push(index);
      one.longest = Math.max(one.longest, longest);
    }
  }
  return [...found.values()].map((one) => ({ ...one, group: -1, events: Int32Array.from(one.events).sort() }));
}

function Drawing(props: { recorded: Recorded; lanes: readonly TraceLane[]; span: Span | null; select: (span: Span | null) => void }) {
  const { recorded, lanes, span, select } = props;
  const [ref, width] = useWidth<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const whole: Span = [recorded.first, Math.max(recorded.last, recorded.first + 1e-6)];
  // Null follows a recording that grows.
  const [chosen, choose] = useState<Span | null>(null);
  const view = chosen ?? whole;
  const setView = (change: Span | null | ((old: Span) => Span)) =>
    choose((old) => (typeof change === "function" ? change(old ?? whole) : change));
  const [hover, setHover] = useState<{ index: number; x: number; y: number } | null>(null);
  const drag = useRef<{ from: number; moved: boolean; x: number } | null>(null);
  const labels = width < 560 ? 86 : 190;
  const height = AXIS + lanes.length * (LANE + GAP);
  const theme = useTheme();
  // biome-ignore lint/correctness/useExhaustiveDependencies: the drawing takes its colours from the theme.
  useLayoutEffect(() => {
    if (canvas.current) draw(canvas.current, recorded, lanes, view, span, width, height, labels);
  }, [recorded, lanes, view, span, width, height, theme]);

  const timeAt = (clientX: number) => {
    const left = canvas.current?.getBoundingClientRect().left ?? 0;
    const part = (clientX - left - labels) / (width - labels);
    return view[0] + Math.min(Math.max(part, 0), 1) * (view[1] - view[0]);
  };
  const zoom = (factor: number, at = (view[0] + view[1]) / 2) => setView((old) => clamp(old, factor, at, whole));
  const find = (event: PointerEvent) => {
    const top = canvas.current?.getBoundingClientRect().top ?? 0;
    const lane = lanes[Math.floor((event.clientY - top) / (LANE + GAP))];
    return lane ? eventAt(recorded, lane, timeAt(event.clientX), ((view[1] - view[0]) / (width - labels)) * 2) : -1;
  };
  return (
    <div class="timeline program" ref={ref}>
      <canvas
        ref={canvas}
        tabIndex={0}
        role="img"
        aria-label={`Lanes: ${lanes.map((lane) => `${TITLES[lane.lane]} ${lane.title}, ${lane.events.length} events`).join("; ")}. Plus and minus zoom, arrows move.`}
        onKeyDown={(event) => {
          const step = (view[1] - view[0]) / 5;
          if (["+", "=", "w", "W"].includes(event.key)) zoom(0.7);
          else if (["-", "s", "S"].includes(event.key)) zoom(1.4);
          else if (["ArrowLeft", "a", "A"].includes(event.key)) setView((old) => moved(old, -step, whole));
          else if (["ArrowRight", "d", "D"].includes(event.key)) setView((old) => moved(old, step, whole));
          else if (event.key === "Escape") select(null);
          else return;
          event.preventDefault();
        }}
        onWheel={(event) => {
          if (!event.ctrlKey && !event.metaKey) return;
          event.preventDefault();
          zoom(event.deltaY > 0 ? 1.25 : 0.8, timeAt(event.clientX));
        }}
        onPointerDown={(event) => {
          drag.current = { from: timeAt(event.clientX), moved: false, x: event.clientX };
          canvas.current?.setPointerCapture(event.pointerId);
        }}
        onPointerMove={(event) => {
          const held = drag.current;
          if (held) {
            held.moved ||= Math.abs(event.clientX - held.x) > 3;
            const to = timeAt(event.clientX);
            if (held.moved) select([Math.min(held.from, to), Math.max(held.from, to)]);
            return;
          }
          const index = find(event);
          const box = canvas.current?.getBoundingClientRect();
          setHover(index >= 0 && box ? { index, x: event.clientX - box.left, y: event.clientY - box.top } : null);
        }}
        onPointerUp={() => {
          drag.current = null;
        }}
        onPointerLeave={() => setHover(null)}
      />
      {hover && <Tip recorded={recorded} index={hover.index} x={Math.min(hover.x + 12, width - 270)} y={hover.y + 14} />}
      <div class="zoom">
        <button type="button" class="quiet" aria-label="Zoom in" onClick={() => zoom(0.5)}>
          +
        </button>
        <button type="button" class="quiet" aria-label="Zoom out" onClick={() => zoom(2)}>
          −
        </button>
        <button type="button" class="quiet" onClick={() => setView(null)}>
          All
        </button>
        {span && (
          <button type="button" class="quiet" onClick={() => setView(clamp(span, 1, (span[0] + span[1]) / 2, whole))}>
            Zoom to the selection
          </button>
        )}
      </div>
    </div>
  );
}

/** What an event was. */
function Tip(props: { recorded: Recorded; index: number; x: number; y: number }) {
  const { events, form, groups } = props.recorded;
  const at = (column: { [index: number]: number }) => column[props.index] ?? -1;
  const site = form.sites[at(events.site)];
  const lines = [
    form.details[at(events.detail)],
    site && `${site.file.split("/").at(-1)}:${site.line}${site.function && site.function !== "<module>" ? ` in ${site.function}` : ""}`,
    [form.threads[at(events.thread)], form.tasks[at(events.task)]].filter(Boolean).join(", "),
    at(events.bytes) > 0 ? bytes(at(events.bytes)) : "",
  ].filter(Boolean);
  return (
    <div class="tip wide" style={{ left: `${props.x}px`, top: `${props.y}px` }}>
      <b>{duration(at(events.seconds))}</b> {form.kinds[at(events.kind)]?.name} {groups[at(events.group)] ?? ""}
      {at(events.failed) > 0 && <b> failed</b>}
      {lines.map((line) => (
        <div key={line} class="dim">
          {line}
        </div>
      ))}
    </div>
  );
}

function clamp(view: Span, factor: number, at: number, whole: Span): Span {
  const most = whole[1] - whole[0];
  const length = Math.min(Math.max((view[1] - view[0]) * factor, most / 1e6), most);
  const start = at - (at - view[0]) * (length / (view[1] - view[0] || 1));
  return moved([start, start + length], 0, whole);
}

function moved(view: Span, by: number, whole: Span): Span {
  const length = view[1] - view[0];
  const start = Math.min(Math.max(view[0] + by, whole[0]), whole[1] - length);
  return [start, start + length];
}

function draw(
  canvas: HTMLCanvasElement,
  recorded: Recorded,
  lanes: readonly TraceLane[],
  view: Span,
  span: Span | null,
  width: number,
  height: number,
  labels: number,
) {
  const pen = prepare(canvas, width, height);
  if (!pen) return;
  const { context, colour } = pen;
  const x = (time: number) => labels + ((time - view[0]) / (view[1] - view[0])) * (width - labels);
  const axis = { from: view[0], to: view[1], left: labels, width, bottom: height - AXIS, height };
  drawTimeAxis(pen, axis, (tick, step) => `${tick.toFixed(Math.max(0, -Math.floor(Math.log10(step))))} s`);
  context.save();
  context.beginPath();
  context.rect(labels, 0, width - labels, height);
  context.clip();
  lanes.forEach((lane, position) => {
    const top = position * (LANE + GAP);
    context.fillStyle = colour("raised");
    context.fillRect(labels, top, width - labels, LANE);
    drawEvents(pen, recorded, lane, view, x, top);
  });
  if (span) {
    context.fillStyle = colour("accent");
    context.globalAlpha = 0.16;
    context.fillRect(x(span[0]), 0, Math.max(x(span[1]) - x(span[0]), 1), height - AXIS);
    context.globalAlpha = 1;
  }
  context.restore();
  let last = "";
  lanes.forEach((lane, position) => {
    const middle = position * (LANE + GAP) + LANE / 2;
    context.fillStyle = colour("text");
    if (lane.lane !== last && labels > 100) context.fillText(TITLES[lane.lane] ?? "", 0, middle);
    last = lane.lane;
    context.fillStyle = colour("dim");
    const left = labels > 100 ? 64 : 0;
    const text = labels > 100 ? lane.title : `${(TITLES[lane.lane] ?? "").slice(0, 4)} ${lane.title}`;
    context.fillText(fitted(context, text, labels - left - 8), left, middle);
  });
}

/** Shortens text to a width in pixels. */
function fitted(context: CanvasRenderingContext2D, text: string, most: number): string {
  if (context.measureText(text).width <= most) return text;
  let length = text.length;
  while (length > 1 && context.measureText(`${text.slice(0, length)}…`).width > most) length--;
  return `${text.slice(0, length)}…`;
}

/** Colours are those of compute units; what no unit does is grey. */
const FILLS: Record<string, Colour> = {
  "CPU request": "cpu",
  "GPU request": "gpu",
  "GPU busy": "gpu",
  "Neural Engine request": "ne",
  "Neural Engine busy": "ne",
  operation: "faint",
};
const LANE_FILLS: Record<string, Colour> = { activity: "dim", data: "faint", compute: "dim" };
/** Preparations, which are hatched to stand out from predictions. */
const PREPARATIONS = new Set(["load", "compile", "prepare engine"]);

function drawEvents(pen: Pen, recorded: Recorded, lane: TraceLane, view: Span, x: (time: number) => number, top: number) {
  const { context, colour } = pen;
  const { start, seconds, kind } = recorded.events;
  const fills = recorded.form.kinds.map((one) => colour(FILLS[one.name] ?? LANE_FILLS[one.lane] ?? "dim"));
  const strip = new Strip(context, top);
  for (let position = firstAfter(recorded, lane, view[0] - lane.longest); position < lane.events.length; position++) {
    const index = lane.events[position] ?? 0;
    const begin = start[index] ?? 0;
    if (begin > view[1]) break;
    const [left, right] = [x(begin), x(begin + (seconds[index] ?? 0))];
    if (right < x(view[0])) continue;
    const fill = fills[kind[index] ?? 0] ?? "";
    if (right - left < 3) {
      strip.add(left, right, fill);
      continue;
    }
    strip.flush();
    const [name, isInner] = nameOf(recorded, lane, index);
    const inset = isInner ? 6 : 2;
    const isPreparation = PREPARATIONS.has(name);
    context.fillStyle = isPreparation ? colour("surface") : fill;
    context.fillRect(left, top + inset, right - left - 0.6, LANE - 2 * inset);
    if (isPreparation) hatch(pen, left, top + inset, right - left - 0.6, LANE - 2 * inset);
    drawName(context, name, left, right, Math.max(left, x(view[0])), top, colour(isPreparation ? "text" : "surface"));
  }
  strip.flush();
}

/** The name of an event, and whether it is drawn inside another one. */
function nameOf(recorded: Recorded, lane: TraceLane, index: number): [string, boolean] {
  const { kind, depth, detail } = recorded.events;
  const name = recorded.form.kinds[kind[index] ?? 0]?.name ?? "";
  if (name === "operation") return [recorded.form.details[detail[index] ?? -1] ?? name, true];
  return [name, lane.lane === "activity" && (depth[index] ?? 0) > 0];
}

/** Joins events that are too narrow to be distinguished. */
class Strip {
  private from = -1;
  private to = -1;
  private fill = "";

  constructor(
    private readonly context: CanvasRenderingContext2D,
    private readonly top: number,
  ) {}

  add(left: number, right: number, fill: string) {
    if (this.from >= 0 && fill === this.fill && left - this.to < LEAST) {
      this.to = Math.max(this.to, right);
      return;
    }
    this.flush();
    [this.from, this.to, this.fill] = [left, Math.max(right, left + LEAST), fill];
  }

  flush() {
    if (this.to > this.from) {
      this.context.fillStyle = this.fill;
      this.context.fillRect(this.from, this.top + 2, Math.max(this.to - this.from, LEAST), LANE - 4);
    }
    this.from = this.to = -1;
  }
}

function drawName(context: CanvasRenderingContext2D, name: string, left: number, right: number, from: number, top: number, colour: string) {
  if (right - left <= 40) return;
  context.save();
  context.beginPath();
  context.rect(left, top, right - left - 4, LANE);
  context.clip();
  context.fillStyle = colour;
  context.fillText(name, from + 5, top + LANE / 2);
  context.restore();
}
