import type { ComputeUnit } from "../data/schema";
import { UNIT_NAMES } from "../data/words";
import { share } from "../format";

/** A part of a bar: of a unit, of operations whose unit is not known, or of launches and changes of unit. */
export interface UnitPart {
  unit: ComputeUnit | "overhead" | null;
  amount: number;
  text: string;
}

const nameOf = (unit: UnitPart["unit"]): string =>
  unit === "overhead" ? "launches and changes of unit" : unit ? UNIT_NAMES[unit] : "unknown";

/** A bar divided among compute units, with a text alternative. */
export function UnitBar(props: { parts: readonly UnitPart[]; most?: number }) {
  const total = props.parts.reduce((sum, part) => sum + part.amount, 0);
  const scale = props.most ?? total;
  if (props.parts.length === 0) return <span class="faint">–</span>;
  const words = props.parts.map((part) => `${nameOf(part.unit)} ${total ? share(part.amount / total) : ""} (${part.text})`).join(", ");
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

export function UnitLegend(props: { units: readonly UnitPart["unit"][] }) {
  return (
    <p class="legend">
      {props.units.map((unit) => (
        <span key={unit ?? "none"} class="legend-item">
          <span class={`swatch fill-${unit ?? "none"}`} /> {unit ? nameOf(unit) : "not known"}
        </span>
      ))}
    </p>
  );
}
