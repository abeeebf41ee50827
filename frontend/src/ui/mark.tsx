import type { Mark } from "../data/placement";
import type { ComputeUnit } from "../data/schema";
import { UNIT_NAMES } from "../data/words";

const SIGNS: Record<Mark, string> = { runs: "●", may: "◐", can: "○", cannot: "◇", unknown: "?", barred: "·" };
const WORDS: Record<Mark, string> = {
  runs: "planned to run on the",
  may: "may run as well on the",
  can: "could run on the",
  cannot: "cannot run on the",
  unknown: "not known whether it could run on the",
  barred: "the setting forbids the",
};

/** A placement mark: ● runs there, ◐ may as well (and why), ○ could, ◇ cannot, as in Xcode's performance reports. */
export function UnitMark(props: { unit: ComputeUnit; mark: Mark; why?: string }) {
  const text = `${WORDS[props.mark]} ${UNIT_NAMES[props.unit]}${props.why ? `: ${props.why}` : ""}`;
  return (
    <span class={`mark mark-${props.mark} unit-${props.unit}`} role="img" aria-label={text} title={text}>
      {SIGNS[props.mark]}
    </span>
  );
}

export function MarkLegend() {
  return (
    <p class="legend">
      <span class="mark mark-runs unit-cpu">●</span> runs there
      <span class="mark mark-may unit-cpu">◐</span> may as well
      <span class="mark mark-can unit-cpu">○</span> could
      <span class="mark mark-cannot">◇</span> cannot
      <span class="mark mark-unknown">?</span> not known
    </p>
  );
}
