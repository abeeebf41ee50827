import type { Drawing } from "../../data/drawing";
import type { Positions } from "../../layout/shapes";
import { boxAt } from "./paths";

export type Direction = "ArrowUp" | "ArrowDown" | "ArrowLeft" | "ArrowRight";

/** The box that a key leads to: up and down along edges, left and right beside; null where there is none. */
export function neighbour(drawing: Drawing, positions: Positions, from: number, key: Direction): number | null {
  const linked = (isUp: boolean) =>
    drawing.edges.flatMap((edge) => (isUp ? (edge.to === from ? [edge.from] : []) : edge.from === from ? [edge.to] : []));
  const here = boxAt(positions, from);
  if (key === "ArrowUp" || key === "ArrowDown") {
    // The nearest in the program's order lies on the way.
    const found = linked(key === "ArrowUp");
    return found.length ? found.reduce((best, one) => (Math.abs(one - from) < Math.abs(best - from) ? one : best)) : null;
  }
  const sign = key === "ArrowRight" ? 1 : -1;
  let [best, least]: [number | null, number] = [null, Number.POSITIVE_INFINITY];
  drawing.boxes.forEach((_, index) => {
    const there = boxAt(positions, index);
    const [right, down] = [(there.x - here.x) * sign, Math.abs(there.y - here.y)];
    const distance = right + 3 * down;
    if (right > 1 && distance < least) [best, least] = [index, distance];
  });
  return best;
}
