/** Saves what a section shows: its charts as a PNG, its tables as CSV. */

import type { Cell } from "../data/csv";
import type { Pen } from "./canvas";

/** Pixels of the picture for each of the page. */
const SCALE = 2;
/** Drawings of less area than this, in pixels of the page, are not saved. */
const LEAST = 20_000;
const CHARTS = "canvas, svg:not([aria-hidden])";
const [MARGIN, HEAD, GAP] = [16, 40, 12];
/** What the look of an SVG element depends on. */
const STYLES = [
  ...["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "opacity", "marker-end", "paint-order"],
  ...["font-family", "font-size", "font-weight", "text-anchor", "dominant-baseline", "display", "visibility"],
];

/** Hands a file to the reader. */
export function saveFile(name: string, content: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

/** Whether a section has charts. Sizes are not asked for: that would lay out sections that are out of view. */
export const hasCharts = (section: HTMLElement): boolean => section.querySelector(CHARTS) !== null;

function chartsIn(section: HTMLElement): (HTMLCanvasElement | SVGSVGElement)[] {
  return [...section.querySelectorAll<HTMLCanvasElement | SVGSVGElement>(CHARTS)].filter(
    (one) => one.clientWidth * one.clientHeight >= LEAST,
  );
}

/** The tables that a section shows, as text; columns whose heading is for screen readers only are left out. */
export function tablesIn(section: HTMLElement): Cell[][] {
  return [...section.querySelectorAll("table")].flatMap((table, index) => {
    const rows = [...table.rows];
    const drawn = new Set([...(rows[0]?.cells ?? [])].flatMap((cell, place) => (cell.querySelector(".hidden") ? [place] : [])));
    const cells = rows.map((row) => [...row.cells].filter((_, place) => !drawn.has(place)).map(textOf));
    return index > 0 ? [[], ...cells] : cells;
  });
}

/** The text of a cell; the text alternative of a bar. */
const textOf = (cell: HTMLElement): string =>
  cell.innerText.replace(/\s+/g, " ").trim() || (cell.querySelector("[aria-label]")?.getAttribute("aria-label") ?? "");

/** The charts of a section in one picture, below its title and where its numbers come from. */
export async function drawCharts(section: HTMLElement): Promise<Blob | null> {
  const charts = chartsIn(section);
  const images = await Promise.all(charts.map((chart) => (chart instanceof HTMLCanvasElement ? chart : imageOf(chart))));
  const width = Math.max(...charts.map((chart) => chart.clientWidth)) + 2 * MARGIN;
  const height = charts.reduce((sum, chart) => sum + chart.clientHeight + GAP, HEAD) + MARGIN;
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [width * SCALE, height * SCALE];
  const context = canvas.getContext("2d");
  if (!context) return null;
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => resolved(style.getPropertyValue(`--${name}`));
  context.scale(SCALE, SCALE);
  context.fillStyle = colour("surface");
  context.fillRect(0, 0, width, height);
  writeHead(context, section, colour);
  let top = HEAD;
  images.forEach((image, index) => {
    const chart = charts[index];
    if (!chart) return;
    context.drawImage(image, MARGIN, top, chart.clientWidth, chart.clientHeight);
    top += chart.clientHeight + GAP;
  });
  return new Promise((done) => canvas.toBlob(done));
}

function writeHead(context: CanvasRenderingContext2D, section: HTMLElement, colour: Pen["colour"]): void {
  const sans = getComputedStyle(document.body).fontFamily;
  const title = `${section.querySelector("h2")?.textContent ?? ""} – ${document.title.replace(/ – coremlscope$/, "")}`;
  context.textBaseline = "middle";
  context.font = `600 14px ${sans}`;
  context.fillStyle = colour("text");
  context.fillText(title, MARGIN, HEAD / 2);
  const from = MARGIN + context.measureText(title).width + 12;
  context.font = `12px ${sans}`;
  context.fillStyle = colour("dim");
  const tags = [...section.querySelectorAll<HTMLElement>(".section-note .origin, .group-choices .origin")].map((tag) =>
    tag.innerText.trim(),
  );
  context.fillText([...new Set(tags)].join(" · "), from, HEAD / 2);
}

/** A colour as the browser computes it: `light-dark(…)` depends on the theme. */
function resolved(colour: string): string {
  const probe = document.createElement("span");
  probe.style.color = colour;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

/** An SVG drawing as an image; its styles are those of the page. */
async function imageOf(chart: SVGSVGElement): Promise<HTMLImageElement> {
  const copy = chart.cloneNode(true) as SVGSVGElement;
  const copies = copy.querySelectorAll<SVGElement>("*");
  chart.querySelectorAll<SVGElement>("*").forEach((element, index) => {
    const style = getComputedStyle(element);
    const to = copies[index];
    if (to) for (const name of STYLES) to.style.setProperty(name, style.getPropertyValue(name));
  });
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", String(chart.clientWidth * SCALE));
  copy.setAttribute("height", String(chart.clientHeight * SCALE));
  if (!copy.hasAttribute("viewBox")) copy.setAttribute("viewBox", `0 0 ${chart.clientWidth} ${chart.clientHeight}`);
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(copy))}`;
  await image.decode();
  return image;
}
