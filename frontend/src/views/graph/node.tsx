import { isFold, type Part } from "../../data/folding";
import type { ComputeUnit } from "../../data/schema";
import { plural, share } from "../../format";
import { HEIGHT, WIDTH } from "../../layout/shapes";
import { type Look, UNIT_ORDER, wordsOf } from "./look";
import { middle, shorten } from "./names";

/** An operation, or a fold of them. */
export function Node(props: {
  part: Part;
  /** Its name, without what all names share. */
  name: string;
  x: number;
  y: number;
  look: Look;
  isCurrent: boolean;
  onUse: (part: Part) => void;
}) {
  const { part, look } = props;
  const title = isFold(part) ? part.title : part.layerType || part.type;
  const detail = isFold(part) ? plural(part.rows.length, "operation") : props.name;
  const figure = look.share === null ? "" : share(look.share);
  return (
    <g
      id={nodeId(part)}
      class={nodeClass(part, look, props.isCurrent)}
      transform={`translate(${props.x} ${props.y})`}
      tabindex={-1}
      role="button"
      onClick={() => props.onUse(part)}
    >
      <title>{`${wordsOf(part, look)}${isFold(part) ? "; unfold" : ""}`}</title>
      {isFold(part) && <rect class="node-back" x={4} y={4} width={WIDTH} height={HEIGHT} rx={7} />}
      <rect class={`node-box ${tint(look)}`} width={WIDTH} height={HEIGHT} rx={7} />
      {look.share !== null && <rect class="node-heat" width={WIDTH} height={HEIGHT} rx={7} style={{ opacity: heat(look.share) }} />}
      <UnitBar units={look.units} />
      <text class="node-title" x={15} y={18}>
        {shorten(title, figure ? 15 : 20)}
      </text>
      {figure && (
        <text class="node-figure" x={WIDTH - 9} y={18}>
          {figure}
        </text>
      )}
      <text class="node-detail" x={15} y={34}>
        {middle(detail, 24)}
      </text>
    </g>
  );
}

export const nodeId = (part: Part): string => `node-${part.id}`;

/** How strongly a share of the time colours. */
export const heat = (part: number): number => Math.min(0.9, Math.sqrt(part) * 1.2);

function nodeClass(part: Part, look: Look, isCurrent: boolean): string {
  const classes = ["node"];
  if (isFold(part)) classes.push("node-fold");
  if (look.isCritical) classes.push("node-critical");
  if (look.isFound) classes.push("node-found");
  if (isCurrent) classes.push("node-selected");
  return classes.join(" ");
}

/** The unit's colour behind parts that run on one unit, where units colour. */
function tint(look: Look): string {
  const [only, ...others] = look.units.keys();
  return look.share === null && only && others.length === 0 ? `tint-${only}` : "";
}

/** A bar at the left, divided in proportion to the operations on each unit. */
function UnitBar(props: { units: ReadonlyMap<ComputeUnit, number> }) {
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
