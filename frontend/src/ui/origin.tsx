import type { Origin } from "../data/profile";

/** Says where numbers come from. Stands beside every group of them. */
export function OriginTag(props: { origin: Origin; on?: string | undefined }) {
  return (
    <span class={`origin origin-${props.origin}`}>
      {props.origin}
      {props.on ? ` on ${props.on}` : ""}
    </span>
  );
}
