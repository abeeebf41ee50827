/** A point of a chart whose name is written beside it. */
export interface Labelled {
  x: number;
  y: number;
  radius: number;
  text: string;
}

/** Where a label is written: the anchor of its text is this point, in its middle vertically. */
export interface Spot {
  x: number;
  y: number;
  anchor: "start" | "middle" | "end";
}

/** The edges of a rectangle. */
export interface Room {
  left: number;
  right: number;
  top: number;
  bottom: number;
}

/** The width of a letter, and half the height of a line. */
const LETTER = 6.4;
const HALF = 7;
/** Between a point and its label. */
const GAP = 3;

/** Places beside a point, the best one first. */
function spots({ x, y, radius }: Labelled): Spot[] {
  const [aside, away] = [radius + GAP, radius + GAP + HALF];
  return [
    { x: x + aside, y, anchor: "start" },
    { x: x - aside, y, anchor: "end" },
    { x: x + aside, y: y + away, anchor: "start" },
    { x: x - aside, y: y - away, anchor: "end" },
    { x, y: y - away, anchor: "middle" },
    { x, y: y + away, anchor: "middle" },
    { x: x + aside, y: y - away, anchor: "start" },
    { x: x - aside, y: y + away, anchor: "end" },
  ];
}

function roomOf({ x, y, anchor }: Spot, text: string): Room {
  const width = text.length * LETTER;
  const left = anchor === "start" ? x : anchor === "end" ? x - width : x - width / 2;
  return { left, right: left + width, top: y - HALF, bottom: y + HALF };
}

const meet = (a: Room, b: Room): boolean => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;

const around = ({ x, y, radius }: Labelled): Room => ({ left: x - radius, right: x + radius, top: y - radius, bottom: y + radius });

/**
 * Places labels beside points so that they cover neither each other nor a point; a label without such a place has none.
 *
 * @param points The points; the first ones choose first.
 * @param room What labels must not leave.
 */
export function placeLabels<T extends Labelled>(points: readonly T[], room: Room): Map<T, Spot> {
  const taken = points.map(around);
  const found = new Map<T, Spot>();
  points.forEach((point, own) => {
    const spot = spots(point).find((one) => {
      const box = roomOf(one, point.text);
      const isInside = box.left >= room.left && box.right <= room.right && box.top >= room.top && box.bottom <= room.bottom;
      return isInside && taken.every((other, index) => index === own || !meet(box, other));
    });
    if (!spot) return;
    taken.push(roomOf(spot, point.text));
    found.set(point, spot);
  });
  return found;
}
