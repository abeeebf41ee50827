import { layOut } from "./level";
import { SegmentLayouts } from "./segment";
import type { GraphShape, Positions } from "./shapes";

export interface LayoutRequest {
  id: number;
  shape: GraphShape;
}

export interface LayoutAnswer {
  id: number;
  /** Null where the layout failed. */
  positions: Positions | null;
}

/** Lays out the graphs that the page sends, in a worker. */
export function answerLayouts(scope: Pick<Worker, "postMessage" | "addEventListener">): void {
  const segments = new SegmentLayouts();
  scope.addEventListener("message", (event: MessageEvent<LayoutRequest>) => {
    const { id, shape } = event.data;
    const answer: LayoutAnswer = { id, positions: tryLayOut(shape, segments) };
    scope.postMessage(answer);
  });
}

function tryLayOut(shape: GraphShape, segments: SegmentLayouts): Positions | null {
  try {
    return layOut(shape, segments);
  } catch {
    return null; // the page says that the graph cannot be drawn
  }
}
