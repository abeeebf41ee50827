import { isFold, type Part } from "../../data/folding";
import type { ComputeUnit } from "../../data/schema";
import { UNIT_SHORT } from "../../data/words";
import { plural } from "../../format";
import { HEIGHT, WIDTH } from "../../layout/shapes";
import { type Look, typeOf, UNIT_ORDER, wordsOf } from "./look";
import { shorten, shortenName } from "./names";

/** An operation with its unit, key attributes, name, result and time, or a fold of operations. */
export function Node(props: {
  part: Part;
  /** Its name, without what all names share. */
  name: string;
  x: number;
  y: number;
  look: Look;
  isCurrent: boolean;
  onUse: (part: Part, event: MouseEvent) => void;
}) {
  const { part, look } = props;
  const title = isFold(part) ? part.title : typeOf(part);
  const unit = onlyUnit(look.units);
  // Where the result and the time have no room on one line, the time stands next to the name.
  const isRoomy = isFold(part) || part.output.length + look.time.length < 29;
  return (
    <g
      id={nodeId(part)}
      class={nodeClass(part, look, props.isCurrent)}
      transform={`translate(${props.x} ${props.y})`}
      tabindex={-1}
      role="button"
      onClick={(event) => props.onUse(part, event)}
    >
      <title>{`${wordsOf(part, look)}${isFold(part) ? "; unfold" : ""}`}</title>
      {(isFold(part) || look.times > 1) && <rect class="node-back" x={4} y={4} width={WIDTH} height={HEIGHT} rx={7} />}
      <rect class={`node-box ${unit && look.share === null ? `tint-${unit}` : ""}`} width={WIDTH} height={HEIGHT} rx={7} />
      {look.share !== null && <rect class="node-heat" width={WIDTH} height={HEIGHT} rx={7} style={{ opacity: heat(look.share) }} />}
      <Stripe units={look.units} />
      <text class="node-title" x={15} y={18}>
        {shorten(title, 22)}
        {look.attributes && title.length < 18 && (
          <tspan class="node-attributes" dx={6}>
            {shorten(look.attributes, 23 - title.length)}
          </tspan>
        )}
      </text>
      {unit && (
        <text class={`node-unit fill-${unit}`} x={WIDTH - 9} y={18}>
          {UNIT_SHORT[unit]}
        </text>
      )}
      <text class="node-detail" x={15} y={35}>
        {isFold(part) ? plural(part.rows.length, "operation") : shortenName(props.name, isRoomy ? 28 : 27 - look.time.length)}
      </text>
      <text class="node-detail" x={15} y={52}>
        {isFold(part) ? "" : shorten(part.output, isRoomy ? 29 - look.time.length : 28)}
      </text>
      <text class={`node-figure ${look.time === "same" ? "node-same" : ""}`} x={WIDTH - 9} y={isRoomy ? 52 : 35}>
        {look.time}
      </text>
    </g>
  );
}

export const nodeId = (part: Part): string => `node-${part.id}`;

/** How strongly a share of the time colours. */
export const heat = (part: number): number => Math.min(0.9, Math.sqrt(part) * 1.2);

/** The unit of parts that run on one. */
function onlyUnit(units: Look["units"]): ComputeUnit | null {
  const [only, ...others] = units.keys();
  return only && others.length === 0 ? only : null;
}

function nodeClass(part: Part, look: Look, isCurrent: boolean): string {
  const classes = ["node"];
  if (isFold(part)) classes.push("node-fold");
  if (look.isCritical) classes.push("node-critical");
  if (look.isFound) classes.push("node-found");
  if (look.isPicked) classes.push("node-picked");
  if (isCurrent) classes.push("node-selected");
  return classes.join(" ");
}

/** A bar at the left, divided in proportion to the operations on each unit. */
function Stripe(props: { units: Look["units"] }) {
  const total = [...props.units.values()].reduce((sum, number) => sum + number, 0);
  let top = 5;
  return (
    <g>
      {UNIT_ORDER.filter((unit) => props.units.has(unit)).map((unit) => {
        const height = ((props.units.get(unit) ?? 0) / total) * (HEIGHT - 10);
        const bar = <rect key={unit} class={`fill-${unit}`} x={4.5} y={top} width={5} height={height} rx={1.5} />;
        top += height;
        return bar;
      })}
    </g>
  );
}
