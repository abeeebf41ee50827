import type { Comparison } from "./data/comparison";
import type { ModelSummary, Profile } from "./data/profile";
import type { ServerState } from "./data/server";

/** The JSON of a result; `schema` tells the kinds apart. */
export type Result = Profile | ModelSummary | Comparison | ServerState;

export interface Payload {
  /** The version of coremlscope that wrote the page. */
  version: string;
  result: Result;
}

/** Reads the data that Python embedded in the page. */
export function readPayload(): Payload {
  const element = document.getElementById("payload");
  if (!element?.textContent) throw new Error("this page contains no data");
  return JSON.parse(element.textContent) as Payload;
}
