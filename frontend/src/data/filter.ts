import type { ComputeUnit } from "./schema";

/** The filters of the layer table; an empty string filters nothing. */
export interface Filter {
  text: string;
  unit: ComputeUnit | "none" | "";
  type: string;
  reason: string;
  function: string;
  /** A part of the time of the answer. */
  part: string;
  /** What operations have in common: the key of a change of the answer, of a finding or of an obstacle. */
  cause: string;
}

export const NO_FILTER: Filter = { text: "", unit: "", type: "", reason: "", function: "", part: "", cause: "" };
