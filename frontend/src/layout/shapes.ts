/** What is laid out, and where it was put: plain data that a worker can receive and send. */

/** The size of a box; lengths are in units of the drawing. */
export const [WIDTH, HEIGHT] = [216, 62];

/** A leaf, which is drawn as a box, or the parts in a frame. */
export type PartShape = 0 | PartShape[];

export interface GraphShape {
  /** In the program's order. Leaves are numbered in the order in which they stand here; so are frames. */
  parts: PartShape[];
  /** The leaf that makes a value, and one that reads it: always a later one. */
  edges: readonly (readonly [from: number, to: number])[];
  /** Width by height of the place where the whole is shown. */
  aspect: number;
}

/** A part of edges; those of one value share what they have in common. */
export interface Line {
  /** Indices into the edges of the graph. */
  edges: number[];
  /** Points x, y, x, y …. */
  points: number[];
  /** Whether it is the last part, which ends at the reader. */
  isEnd: boolean;
}

export interface Frame {
  x: number;
  y: number;
  width: number;
  height: number;
}

/** A graph with positions. */
export interface Positions {
  /** The upper left corner of each leaf: x, y, x, y …. */
  boxes: Float64Array;
  frames: Frame[];
  lines: Line[];
  /** Edges without lines: they would pass most of the graph. */
  far: number[];
  width: number;
  height: number;
}
