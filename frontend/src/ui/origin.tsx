import type { Origin } from "../data/schema";

/** The origin of the numbers beside it: who measured them, or the device that they are for. */
export function OriginTag(props: { origin: Origin; on?: string | undefined }) {
  return (
    <span class={`origin origin-${props.origin}`}>
      {props.origin}
      {props.on ? ` ${props.origin === "measured" ? "by" : "on"} ${props.on}` : ""}
    </span>
  );
}
