import { HEIGHT, type Line, type Positions, WIDTH } from "../../layout/shapes";

const CORNER = 9;

/** The path of a line: curves between ranks, and corners where it goes around a column. */
export function linePath({ points }: Line): string {
  const [x = 0, y = 0] = points;
  let path = `M${round(x)},${round(y)}`;
  const isElbow = points.length === 12 && points[0] === points[2];
  for (let at = 2; at < points.length; at += 2) {
    const [fromX = 0, fromY = 0, toX = 0, toY = 0] = points.slice(at - 2, at + 2);
    path += isElbow ? corner(points, at) : step(fromX, fromY, toX, toY);
  }
  return path;
}

function step(fromX: number, fromY: number, toX: number, toY: number): string {
  if (Math.abs(fromX - toX) < 0.5) return `L${round(toX)},${round(toY)}`;
  const middle = (fromY + toY) / 2;
  return `C${round(fromX)},${round(middle)} ${round(toX)},${round(middle)} ${round(toX)},${round(toY)}`;
}

/** A straight part, with a round corner at its end if another part follows. */
function corner(points: readonly number[], at: number): string {
  const [fromX = 0, fromY = 0, x = 0, y = 0, toX, toY] = points.slice(at - 2, at + 4);
  if (toX === undefined || toY === undefined) return `L${round(x)},${round(y)}`;
  const before = Math.min(CORNER, Math.hypot(x - fromX, y - fromY) / 2);
  const after = Math.min(CORNER, Math.hypot(toX - x, toY - y) / 2);
  const [startX, startY] = [x - Math.sign(x - fromX) * before, y - Math.sign(y - fromY) * before];
  const [endX, endY] = [x + Math.sign(toX - x) * after, y + Math.sign(toY - y) * after];
  return `L${round(startX)},${round(startY)}Q${round(x)},${round(y)} ${round(endX)},${round(endY)}`;
}

const round = (value: number): number => Math.round(value * 10) / 10;

/** The visible part: the drawing's point at the upper left corner, and pixels per unit of the drawing. */
export interface View {
  x: number;
  y: number;
  scale: number;
}

export interface Rectangle {
  x: number;
  y: number;
  width: number;
  height: number;
}

export const [SMALLEST, LARGEST] = [0.01, 2.5];

/** The view that shows the whole drawing. */
export function whole(size: { width: number; height: number }, width: number, height: number): View {
  const scale = Math.min(Math.max(Math.min(width / size.width, height / size.height), SMALLEST), 1);
  return { scale, x: (size.width - width / scale) / 2, y: (size.height - height / scale) / 2 };
}

/** Boxes that are smaller have no names; and the least scale at which names can be read. */
export const [TEXT, READABLE] = [0.3, 1];

/** The view that a drawing opens with: its first box at the top, with texts that can be read. */
export function beginning(size: { width: number; height: number }, first: Rectangle | undefined, width: number, height: number): View {
  const [across, down] = [width / READABLE, height / READABLE];
  const x = first ? first.x + first.width / 2 - across / 2 : 0;
  return {
    scale: READABLE,
    x: size.width <= across ? (size.width - across) / 2 : Math.min(Math.max(x, 0), size.width - across),
    y: size.height <= down ? (size.height - down) / 2 : Math.min(Math.max((first?.y ?? 0) - 60, 0), size.height - down),
  };
}

export const centred = (x: number, y: number, scale: number, width: number, height: number): View => ({
  scale,
  x: x - width / scale / 2,
  y: y - height / scale / 2,
});

/** Zooms about a point of the screen. */
export function zoomed(old: View, factor: number, left: number, top: number): View {
  const scale = Math.min(Math.max(old.scale * factor, SMALLEST), LARGEST);
  return { scale, x: old.x + left / old.scale - left / scale, y: old.y + top / old.scale - top / scale };
}

export const overlaps = (a: Rectangle, b: Rectangle): boolean =>
  a.x < b.x + b.width && a.x + a.width > b.x && a.y < b.y + b.height && a.y + a.height > b.y;

export const boxAt = ({ boxes }: Positions, index: number): Rectangle => ({
  ...{ x: boxes[index * 2] ?? 0, y: boxes[index * 2 + 1] ?? 0 },
  ...{ width: WIDTH, height: HEIGHT },
});

/** The rectangle around a line. */
export function around({ points }: Line): Rectangle {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (let at = 0; at < points.length; at += 2) {
    const [x = 0, y = 0] = [points[at], points[at + 1]];
    [left, right] = [Math.min(left, x), Math.max(right, x)];
    [top, bottom] = [Math.min(top, y), Math.max(bottom, y)];
  }
  return { x: left - 1, y: top - 1, width: right - left + 2, height: bottom - top + 2 };
}
