import type { ComputeUnit } from "../data/schema";
import { UNIT_NAMES } from "../data/words";
import { share } from "../format";

/** A bar divided among compute units, with a text alternative. */
export function UnitBar(props: { parts: { unit: ComputeUnit | null; amount: number; text: string }[]; most?: number }) {
  const total = props.parts.reduce((sum, part) => sum + part.amount, 0);
  const scale = props.most ?? total;
  const words = props.parts
    .map((part) => `${part.unit ? UNIT_NAMES[part.unit] : "unknown"} ${total ? share(part.amount / total) : ""} (${part.text})`)
    .join(", ");
  return (
    <span class="unit-bar" role="img" aria-label={words} title={words}>
      {props.parts.map((part) => (
        <span
          key={part.unit ?? "none"}
          class={`unit-part fill-${part.unit ?? "none"}`}
          style={{ width: `${scale ? (part.amount / scale) * 100 : 0}%` }}
        />
      ))}
    </span>
  );
}

export function UnitLegend(props: { units: (ComputeUnit | null)[] }) {
  return (
    <p class="legend">
      {props.units.map((unit) => (
        <span key={unit ?? "none"} class="legend-item">
          <span class={`swatch fill-${unit ?? "none"}`} /> {unit ? UNIT_NAMES[unit] : "not known"}
        </span>
      ))}
    </p>
  );
}
