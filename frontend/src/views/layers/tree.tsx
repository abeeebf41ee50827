import { useEffect, useMemo, useState } from "preact/hooks";
import { mainUnit, ordered, type TreeNode } from "../../data/tree";
import { UNIT_SHORT } from "../../data/words";
import { bytes, count, plural, share } from "../../format";
import { useReport } from "../../report";
import { UnitBar } from "../../ui/units";
import { useWindow } from "../../ui/virtual";

const ROW_HEIGHT = 30;
/** At first the largest groups are opened, until about this many are shown. */
const OPENING = 24;

/** Groups of operations with their totals. Left and right fold, up and down move, Enter shows an operation. */
export function Tree(props: {
  root: TreeNode;
  isByAmount: boolean;
  format: (amount: number) => string;
  heading: string;
  isCompact: boolean;
}) {
  const { root, isByAmount, format, isCompact } = props;
  const { select, selected } = useReport();
  const [open, setOpen] = useState<ReadonlySet<string>>(() => opening(root));
  const [place, setPlace] = useState(0);
  // Another tree opens anew.
  useEffect(() => {
    setOpen(opening(root));
    setPlace(0);
  }, [root]);
  const shown = useMemo(() => visible(root, open, isByAmount), [root, open, isByAmount]);
  const { ref, first, last, reveal } = useWindow(shown.length, ROW_HEIGHT);
  const toggle = (one: TreeNode, wanted = !open.has(one.key)) =>
    setOpen((old) => {
      const next = new Set(old);
      if (wanted) next.add(one.key);
      else next.delete(one.key);
      return next;
    });
  const use = (one: TreeNode) => {
    const id = one.leaf?.rows[0]?.id;
    if (!one.leaf) toggle(one);
    else if (id) select(selected === id ? null : id);
  };
  const press = (event: KeyboardEvent) => {
    const one = shown[place];
    if (!one) return;
    const move = (to: number) => {
      const next = Math.min(Math.max(to, 0), shown.length - 1);
      setPlace(next);
      reveal(next);
    };
    const parent = one.parent ? shown.indexOf(one.parent) : -1;
    const isOpen = open.has(one.key);
    const keys: Record<string, () => void> = {
      ArrowDown: () => move(place + 1),
      ArrowUp: () => move(place - 1),
      Home: () => move(0),
      End: () => move(shown.length - 1),
      ArrowRight: () => (one.leaf ? undefined : toggle(one, true)),
      ArrowLeft: () => (isOpen ? toggle(one, false) : move(parent < 0 ? place : parent)),
      Enter: () => use(one),
      " ": () => use(one),
    };
    const found = keys[event.key];
    if (!found) return;
    found();
    event.preventDefault();
  };
  const heads = isCompact ? [props.heading] : ["Units", "Operations", props.heading, "Share", "FLOPs", "Weights"];
  return (
    <div
      ref={ref}
      class={`grid-scroll tree${isCompact ? " tree-compact" : ""}`}
      role="treegrid"
      aria-label="Groups of operations"
      aria-rowcount={shown.length + 1}
      aria-activedescendant={place >= first && place < last ? `tree-${place}` : undefined}
      tabIndex={0}
      onKeyDown={press}
    >
      <div class="grid-row grid-head" role="row" aria-rowindex={1}>
        <div role="columnheader" class="cell name">
          Group
        </div>
        {heads.map((head) => (
          <div key={head} role="columnheader" class={head === "Units" ? "cell" : "cell number"}>
            {head}
          </div>
        ))}
      </div>
      <div class="grid-body" role="rowgroup" style={{ height: `${shown.length * ROW_HEIGHT}px` }}>
        <div style={{ transform: `translateY(${first * ROW_HEIGHT}px)` }} role="presentation">
          {shown.slice(first, Math.max(last, first + 1)).map((one, index) => (
            <Line
              key={one.key}
              one={one}
              place={first + index}
              total={root.amount}
              isOpen={open.has(one.key)}
              isCurrent={first + index === place}
              isSelected={one.leaf?.rows.some((row) => row.id === selected) ?? false}
              isCompact={isCompact}
              format={format}
              onUse={() => {
                setPlace(first + index);
                use(one);
              }}
            />
          ))}
        </div>
        {shown.length === 0 && <p class="empty">No layer matches.</p>}
      </div>
    </div>
  );
}

function Line(props: {
  one: TreeNode;
  place: number;
  total: number;
  isOpen: boolean;
  isCurrent: boolean;
  isSelected: boolean;
  isCompact: boolean;
  format: (amount: number) => string;
  onUse: () => void;
}) {
  const { one, total, isOpen, format } = props;
  const unit = one.leaf ? one.leaf.unit : mainUnit(one);
  const part = total ? one.amount / total : 0;
  return (
    <div
      id={`tree-${props.place}`}
      class={`grid-row${props.isSelected ? " selected" : ""}${props.isCurrent ? " current" : ""}`}
      role="row"
      aria-level={one.depth}
      aria-rowindex={props.place + 2}
      aria-expanded={one.leaf ? undefined : isOpen}
      aria-selected={props.isSelected}
      onClick={props.onUse}
    >
      <Title one={one} isOpen={isOpen} isCompact={props.isCompact} />
      {!props.isCompact && (
        <>
          <div role="gridcell" class="cell">
            <Units one={one} format={format} />
          </div>
          <div role="gridcell" class="cell number">
            {one.ops || ""}
          </div>
        </>
      )}
      <div role="gridcell" class="cell number">
        <span class="bar-cell">
          <span class="bar-track">
            <span class={`bar fill-soft-${unit ?? "none"}`} style={{ width: `${part * 100}%` }} />
          </span>
          <span class="bar-text">{one.isKnown ? format(one.amount) : "–"}</span>
        </span>
      </div>
      {!props.isCompact && (
        <>
          <div role="gridcell" class="cell number">
            {one.isKnown && share(part)}
          </div>
          <div role="gridcell" class="cell number dim">
            {one.ops > 0 && flopsText(one)}
          </div>
          <div role="gridcell" class="cell number dim">
            {one.weightBytes > 0 && bytes(one.weightBytes)}
          </div>
        </>
      )}
    </div>
  );
}

function flopsText({ flops, isComplete }: TreeNode): string {
  if (isComplete) return count(flops);
  return flops ? `≥ ${count(flops)}` : "?";
}

function Title(props: { one: TreeNode; isOpen: boolean; isCompact: boolean }) {
  const { one, isOpen } = props;
  const hasLabel = !props.isCompact && one.leaf && one.leaf.rows.length > 0 && one.leaf.label !== one.title;
  const chip = hasLabel ? one.leaf?.label : props.isCompact && !one.leaf && one.ops;
  return (
    <div role="gridcell" class="cell name" style={{ paddingLeft: `${10 + (one.depth - 1) * 16}px` }} title={titleOf(one)}>
      <span class="fold" aria-hidden="true">
        {one.leaf ? "" : isOpen ? "▾" : "▸"}
      </span>
      <span class="ellipsis">{one.title}</span>
      {chip && <span class="chip">{chip}</span>}
    </div>
  );
}

/** The unit of an operation, or the shares of units in a group. */
function Units(props: { one: TreeNode; format: (amount: number) => string }) {
  const { one, format } = props;
  if (!one.leaf) {
    const parts = [...one.units].map(([unit, amount]) => ({ unit, amount, text: format(amount) }));
    return one.amount > 0 ? <UnitBar parts={parts} /> : null;
  }
  const { unit } = one.leaf;
  if (unit === "overhead") return null;
  return <span class={`unit-name unit-${unit}`}>{unit ? UNIT_SHORT[unit] : "–"}</span>;
}

/** What a node is, for a tooltip. */
export const titleOf = (one: TreeNode): string =>
  one.leaf
    ? [one.leaf.title, one.leaf.label, ...one.leaf.rows.map((row) => row.id)].join("\n")
    : `${one.title}: ${plural(one.ops, "operation")}`;

function visible(root: TreeNode, open: ReadonlySet<string>, isByAmount: boolean): TreeNode[] {
  return ordered(root, isByAmount).flatMap((one) => (open.has(one.key) ? [one, ...visible(one, open, isByAmount)] : [one]));
}

/** Opens the largest groups of groups first. */
function opening(root: TreeNode): Set<string> {
  const open = new Set<string>();
  const waiting = root.children.filter((one) => !one.leaf);
  let shown = waiting.length;
  while (waiting.length > 0) {
    waiting.sort((a, b) => b.amount - a.amount);
    const next = waiting.shift();
    const inside = next?.children.filter((one) => !one.leaf) ?? [];
    if (!next || (open.size > 0 && shown + inside.length > OPENING)) break;
    if (inside.length === 0 && root.children.length > 1) continue;
    open.add(next.key);
    shown += inside.length;
    waiting.push(...inside);
  }
  return open;
}
