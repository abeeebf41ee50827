import type { Lane, ModuleSpan, Span, Timeline } from "../../data/lanes";
import { UNIT_SHORT } from "../../data/words";
import { duration } from "../../format";
import { drawTimeAxis, hatch, type Pen, prepare } from "../../ui/canvas";
import type { Range } from "./range";

export const [LANE, GAP, AXIS, MODULE] = [34, 8, 24, 19];
export const OVERVIEW = 40;
/** Spans narrower than this many pixels are merged with their neighbours. */
const LEAST = 0.6;

/** What is drawn, and where. */
export interface Scene {
  lanes: Timeline;
  modules: readonly ModuleSpan[];
  view: Range;
  /** The id of the selected operation. */
  selected: string | null;
  /** What is being selected by a drag. */
  marked: Range | null;
  width: number;
  /** The width of the titles of lanes. */
  labels: number;
}

/** The rows of modules above the lanes. */
export const depthOf = (modules: readonly ModuleSpan[]): number => modules.reduce((most, one) => Math.max(most, one.depth + 1), 0);

/** Where the lanes begin. */
export const lanesTop = (modules: readonly ModuleSpan[]): number => (modules.length > 0 ? depthOf(modules) * MODULE + GAP : 0);

export const sceneHeight = ({ lanes, modules }: Pick<Scene, "lanes" | "modules">): number =>
  lanesTop(modules) + lanes.lanes.length * (LANE + GAP) + AXIS;

export function drawScene(canvas: HTMLCanvasElement, scene: Scene): void {
  const { lanes, modules, view, width, labels } = scene;
  const height = sceneHeight(scene);
  const pen = prepare(canvas, width, height);
  if (!pen) return;
  const { context, colour } = pen;
  const x = (time: number) => labels + ((time - view.start) / view.seconds) * (width - labels);
  const axis = { from: view.start, to: view.start + view.seconds, left: labels, width, bottom: height - AXIS, height };
  drawTimeAxis(pen, axis, (tick, step) => (tick < step / 2 ? "0" : duration(tick)));
  context.save();
  context.beginPath();
  context.rect(labels, 0, width - labels, height);
  context.clip();
  for (const one of modules) drawModule(pen, one, x(one.start), x(one.start + one.seconds), labels, width);
  lanes.lanes.forEach((lane, index) => {
    const top = lanesTop(modules) + index * (LANE + GAP);
    context.fillStyle = colour("raised");
    context.fillRect(labels, top, width - labels, LANE);
    drawSpans(pen, lane, scene, x, top);
  });
  drawSwitches(pen, scene, x, height - AXIS);
  if (scene.marked) drawMarked(pen, x(scene.marked.start), x(scene.marked.start + scene.marked.seconds), height - AXIS);
  context.restore();
  context.fillStyle = colour("dim");
  if (modules.length > 0) context.fillText("Modules", 0, MODULE / 2);
  lanes.lanes.forEach((lane, index) => {
    const title = lane.unit !== "measured" && width < 560 ? UNIT_SHORT[lane.unit] : lane.title;
    context.fillText(title, 0, lanesTop(modules) + index * (LANE + GAP) + LANE / 2);
  });
}

function drawModule({ context, colour }: Pen, one: ModuleSpan, left: number, right: number, labels: number, width: number): void {
  if (right < labels || left > width || right - left < 1) return;
  const top = one.depth * MODULE;
  context.fillStyle = colour("accent-soft");
  context.fillRect(left, top, Math.max(right - left - 1, 1), MODULE - 2);
  const from = Math.max(left, labels) + 5;
  if (Math.min(right, width) - from > 24)
    writeIn({ context, colour }, one.title, from, top + MODULE / 2 - 1, Math.min(right, width) - from - 4);
}

/** A text that ends with a point where the space does. */
function writeIn({ context, colour }: Pen, text: string, x: number, y: number, space: number): void {
  context.fillStyle = colour("text");
  if (context.measureText(text).width <= space) {
    context.fillText(text, x, y);
    return;
  }
  const most = Math.floor((text.length * space) / context.measureText(text).width) - 1;
  if (most >= 3) context.fillText(`${text.slice(0, most)}…`, x, y);
}

function drawSwitches({ context, colour }: Pen, { lanes, view }: Scene, x: (time: number) => number, bottom: number): void {
  context.strokeStyle = colour("faint");
  context.setLineDash([2, 3]);
  for (const { at } of lanes.switches) {
    if (at < view.start || at > view.start + view.seconds) continue;
    context.beginPath();
    context.moveTo(x(at), 0);
    context.lineTo(x(at), bottom);
    context.stroke();
  }
  context.setLineDash([]);
}

function drawMarked({ context, colour }: Pen, left: number, right: number, bottom: number): void {
  context.fillStyle = colour("accent");
  context.globalAlpha = 0.16;
  context.fillRect(left, 0, right - left, bottom);
  context.globalAlpha = 1;
  for (const at of [left, right]) context.fillRect(at - 0.5, 0, 1.5, bottom);
}

const fillOf = (lane: Lane) => (lane.unit === "neural_engine" ? "ne" : lane.unit);

/** Work is filled; what a runtime does between it is hatched. Thin spans beside each other are one. */
function drawSpans(pen: Pen, lane: Lane, { view, selected, labels }: Scene, x: (time: number) => number, top: number): void {
  const { context, colour } = pen;
  const end = view.start + view.seconds;
  const fill = colour(fillOf(lane));
  let [from, to] = [-1, -1];
  const flush = () => {
    context.fillStyle = fill;
    if (to > from) context.fillRect(from, top + 3, Math.max(to - from, LEAST), LANE - 6);
    from = to = -1;
  };
  for (const span of lane.spans) {
    if (span.start + span.seconds < view.start) continue;
    if (span.start > end) break;
    const [left, right] = [x(span.start), x(span.start + span.seconds)];
    if (span.kind === "work" && right - left < 3) {
      if (from < 0 || left - to >= LEAST) flush();
      if (from < 0) from = left;
      to = Math.max(right, from + LEAST);
      continue;
    }
    flush();
    if (span.kind === "work") drawWork(pen, span, left, right, top, fill, labels);
    else drawOverhead(pen, left, right, top);
  }
  flush();
  const chosen = lane.spans.find((span) => span.id !== "" && span.id === selected);
  if (!chosen) return;
  context.strokeStyle = colour("text");
  context.lineWidth = 2;
  context.strokeRect(x(chosen.start), top + 2, Math.max(x(chosen.start + chosen.seconds) - x(chosen.start), 3), LANE - 4);
  context.lineWidth = 1;
}

function drawOverhead(pen: Pen, left: number, right: number, top: number): void {
  const width = Math.max(right - left, LEAST);
  pen.context.fillStyle = pen.colour("surface");
  pen.context.fillRect(left, top + 3, width, LANE - 6);
  if (width >= 2) hatch(pen, left, top + 3, width, LANE - 6);
  pen.context.strokeStyle = pen.colour("line-strong");
  if (width >= 3) pen.context.strokeRect(left + 0.5, top + 3.5, width - 1, LANE - 7);
}

function drawWork({ context, colour }: Pen, span: Span, left: number, right: number, top: number, fill: string, labels: number): void {
  context.fillStyle = fill;
  context.fillRect(left, top + 3, right - left - 0.8, LANE - 6);
  if (right - left <= 44) return;
  context.save();
  context.beginPath();
  context.rect(left, top, right - left - 4, LANE);
  context.clip();
  context.fillStyle = colour("surface");
  context.fillText(span.label, Math.max(left, labels) + 5, top + LANE / 2);
  context.restore();
}

/** The whole time in a strip, with the visible part. */
export function drawOverview(canvas: HTMLCanvasElement, { lanes, view, width, labels }: Scene): void {
  const pen = prepare(canvas, width, OVERVIEW);
  if (!pen) return;
  const { context, colour } = pen;
  const x = (time: number) => labels + (time / lanes.seconds) * (width - labels);
  context.fillStyle = colour("raised");
  context.fillRect(labels, 0, width - labels, OVERVIEW);
  const each = (OVERVIEW - 6) / lanes.lanes.length;
  lanes.lanes.forEach((lane, index) => {
    // One pixel is drawn once, however many spans are in it.
    let drawn = -1;
    for (const span of lane.spans) {
      const [left, right] = [Math.max(x(span.start), drawn), x(span.start + span.seconds)];
      if (right < drawn + 0.5) continue;
      context.fillStyle = colour(span.kind === "work" ? fillOf(lane) : "line-strong");
      context.fillRect(left, 3 + index * each, Math.max(right - left, LEAST), each - 1);
      drawn = right;
    }
  });
  const [left, right] = [x(view.start), x(view.start + view.seconds)];
  context.fillStyle = colour("ground");
  context.globalAlpha = 0.7;
  context.fillRect(labels, 0, left - labels, OVERVIEW);
  context.fillRect(right, 0, width - right, OVERVIEW);
  context.globalAlpha = 1;
  context.strokeStyle = colour("accent");
  context.lineWidth = 1.5;
  context.strokeRect(left + 0.75, 0.75, Math.max(right - left - 1.5, 2), OVERVIEW - 1.5);
  context.fillStyle = colour("dim");
  context.fillText("All", 0, OVERVIEW / 2);
}
