import { isFold, type Part } from "../../data/folding";
import { type Box, HEIGHT, WIDTH } from "../../data/layout";
import type { ComputeUnit } from "../../data/schema";
import { UNIT_NAMES } from "../../data/words";
import { plural, share } from "../../format";

/** What colours a part: its operations on each unit, and its share of the costs. */
export interface Look {
  units: ReadonlyMap<ComputeUnit, number>;
  share: number | null;
}

const ORDER: readonly ComputeUnit[] = ["neural_engine", "gpu", "cpu"];

/** An operation, or a fold of them. */
export function Node(props: { box: Box; look: Look; isSelected: boolean; onUse: (part: Part) => void }) {
  const { box, look } = props;
  const { part } = box;
  const [title, detail] = isFold(part) ? [part.title, plural(part.rows.length, "operation")] : [part.layerType || part.type, part.output];
  const name = isFold(part) ? "" : part.layer || part.name;
  const text = look.share === null ? detail : `${share(look.share)} · ${detail}`;
  const words = isFold(part)
    ? `${title}: ${text}${unitsInWords(look)}; unfold`
    : `${title} ${part.name} (${part.id}): ${text}${unitsInWords(look)}`;
  const use = () => props.onUse(part);
  return (
    <g
      class={`node ${isFold(part) ? "node-fold" : ""} ${props.isSelected ? "node-selected" : ""}`}
      transform={`translate(${box.x} ${box.y})`}
      tabIndex={0}
      role="button"
      onClick={use}
      onKeyDown={(event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        use();
      }}
    >
      {isFold(part) && <rect class="node-back" x={4} y={4} width={WIDTH} height={HEIGHT} rx={7} />}
      <rect class="node-box" width={WIDTH} height={HEIGHT} rx={7} />
      {look.share !== null && (
        <rect class="node-heat" width={WIDTH} height={HEIGHT} rx={7} style={{ opacity: Math.min(0.85, Math.sqrt(look.share) * 1.1) }} />
      )}
      <UnitBar units={look.units} />
      <text class="node-title" x={14} y={19}>
        {shorten(title, 20)}
      </text>
      {name && (
        <text class="node-name" x={14} y={34}>
          {shorten(name, 27)}
        </text>
      )}
      <text class="node-detail" x={14} y={name ? 50 : 38}>
        {shorten(text, 29)}
      </text>
      <title>{words}</title>
    </g>
  );
}

/** A bar at the left, divided in proportion to the operations on each unit. */
function UnitBar(props: { units: ReadonlyMap<ComputeUnit, number> }) {
  const total = [...props.units.values()].reduce((sum, number) => sum + number, 0);
  let top = 5;
  return (
    <g>
      {ORDER.filter((unit) => props.units.has(unit)).map((unit) => {
        const height = ((props.units.get(unit) ?? 0) / total) * (HEIGHT - 10);
        const bar = <rect key={unit} class={`fill-${unit}`} x={4} y={top} width={5} height={height} rx={1.5} />;
        top += height;
        return bar;
      })}
    </g>
  );
}

function unitsInWords(look: Look): string {
  const words = ORDER.filter((unit) => look.units.has(unit)).map((unit) => `${look.units.get(unit)} on the ${UNIT_NAMES[unit]}`);
  return words.length ? `, ${words.join(", ")}` : "";
}

/** Shortens a text; paths keep their end, which says more than the beginning. */
function shorten(text: string, most: number): string {
  if (text.length <= most) return text;
  return text.includes("/") ? `…${text.slice(1 - most)}` : `${text.slice(0, most - 1)}…`;
}
