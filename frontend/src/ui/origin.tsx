import type { Origin } from "../data/schema";

/** The origin of the numbers beside it. */
export function OriginTag(props: { origin: Origin; on?: string | undefined }) {
  return (
    <span class={`origin origin-${props.origin}`}>
      {props.origin}
      {props.on ? ` on ${props.on}` : ""}
    </span>
  );
}
