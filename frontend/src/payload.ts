import type { Comparison } from "./data/comparison";
import type { ModelSummary, Profile } from "./data/profile";
import type { ServerState } from "./data/server";

/** What a page shows: the JSON of a result, told apart by its `schema`. */
export type Result = Profile | ModelSummary | Comparison | ServerState;

export interface Payload {
  /** The version of coremlscope that wrote the page. */
  version: string;
  result: Result;
}

/** Reads what Python put into the page. */
export function readPayload(): Payload {
  const element = document.getElementById("payload");
  if (!element?.textContent) throw new Error("this page holds no data");
  return JSON.parse(element.textContent) as Payload;
}
