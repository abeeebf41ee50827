/** What drawings on a canvas share: its size, the page's colours and font, and an axis of time. */
export interface Pen {
  context: CanvasRenderingContext2D;
  /** A colour of the page by its name. */
  colour: (name: Colour) => string;
}

/** The colours of `styles/base.css` that drawings use. A canvas ignores a name without a colour. */
export const COLOURS = [
  ...(["ground", "surface", "raised", "line", "line-strong", "text", "dim", "faint"] as const),
  ...(["accent", "accent-soft", "warning", "cpu", "cpu-soft", "gpu", "gpu-soft", "ne", "ne-soft", "measured"] as const),
] as const;
export type Colour = (typeof COLOURS)[number];

/** Prepares a canvas of a size in CSS pixels for a new drawing; null if it cannot be drawn on. */
export function prepare(canvas: HTMLCanvasElement, width: number, height: number): Pen | null {
  const context = canvas.getContext("2d");
  if (!context) return null;
  const density = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * density);
  canvas.height = Math.round(height * density);
  canvas.style.height = `${height}px`;
  context.scale(density, density);
  const style = getComputedStyle(document.documentElement);
  context.font = `12px ${style.getPropertyValue("--sans")}`;
  context.textBaseline = "middle";
  return { context, colour: (name) => style.getPropertyValue(`--${name}`).trim() };
}

/** The step between ticks of an axis: 1, 2 or 5 times a power of ten. */
function tickStep(seconds: number, pixels: number): number {
  const wanted = seconds / Math.max(2, pixels / 110);
  const power = 10 ** Math.floor(Math.log10(wanted));
  return ([1, 2, 5, 10].find((one) => one * power >= wanted) ?? 10) * power;
}

/** Draws lines and labels for times between two, below `bottom`. */
export function drawTimeAxis(
  pen: Pen,
  axis: { from: number; to: number; left: number; width: number; bottom: number; height: number },
  label: (tick: number, step: number) => string,
): void {
  const { context, colour } = pen;
  const { from, to, left, width, bottom, height } = axis;
  const step = tickStep(to - from, width - left);
  context.fillStyle = colour("faint");
  context.strokeStyle = colour("line");
  context.textAlign = "center";
  for (let tick = Math.ceil(from / step) * step; tick <= to; tick += step) {
    const at = left + ((tick - from) / (to - from)) * (width - left);
    context.beginPath();
    context.moveTo(at, 0);
    context.lineTo(at, bottom);
    context.stroke();
    if (at < width - 24) context.fillText(label(tick, step), Math.max(at, left + 4), (bottom + height) / 2);
  }
  context.textAlign = "left";
}

/** Draws slanted lines over a rectangle: what is not work. */
export function hatch({ context, colour }: Pen, x: number, y: number, width: number, height: number): void {
  context.save();
  context.beginPath();
  context.rect(x, y, width, height);
  context.clip();
  context.strokeStyle = colour("line-strong");
  context.lineWidth = 1;
  context.beginPath();
  for (let at = x - height; at < x + width; at += 7) {
    context.moveTo(at, y + height);
    context.lineTo(at + height, y);
  }
  context.stroke();
  context.restore();
}
