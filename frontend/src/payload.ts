import type { Result } from "./data/schema";

export interface Payload {
  /** The version of coremlscope that wrote the page. */
  version: string;
  result: Result;
  /** Every chip that can be planned and estimated for: its id and its name. */
  chips?: [id: string, name: string][];
}

/** Reads the data that Python embedded in the page. */
export function readPayload(): Payload {
  const element = document.getElementById("payload");
  if (!element?.textContent) throw new Error("this page contains no data");
  return JSON.parse(element.textContent) as Payload;
}
