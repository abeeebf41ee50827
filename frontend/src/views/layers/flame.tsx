import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { mainUnit, ordered, pathTo, type TreeNode } from "../../data/tree";
import { UNIT_NAMES } from "../../data/words";
import { plural, share } from "../../format";
import { useReport } from "../../report";
import { useTheme } from "../../theme";
import { hatch, type Pen, prepare } from "../../ui/canvas";
import { useWidth } from "../../ui/width";

const ROW = 24;
/** Boxes narrower than this many pixels are not drawn; those narrower than the second have no text. */
const [LEAST, LEGIBLE] = [0.4, 34];

/** A box of the drawing: a node and its place, as shares of the width of the whole. */
interface Box {
  node: TreeNode;
  from: number;
  to: number;
}

/** A tree as boxes as wide as their amounts: the root at the top (icicle) or at the bottom (flame). */
export function Flame(props: {
  root: TreeNode;
  isUpright: boolean;
  isByAmount: boolean;
  format: (amount: number) => string;
  /** Words that nodes must contain to stand out. */
  search: readonly string[];
  label: string;
}) {
  const { root, isUpright, format } = props;
  const { select } = useReport();
  const boxes = useMemo(() => layOut(root, props.isByAmount), [root, props.isByAmount]);
  const rowsOf = useMemo(() => Math.max(...boxes.map((box) => box.node.depth), 0) + 1, [boxes]);
  const [zoomed, zoom] = useState<TreeNode>(root);
  const [focus, setFocus] = useState<TreeNode>(root);
  useEffect(() => {
    zoom(root);
    setFocus(root);
  }, [root]);
  const [ref, width] = useWidth<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const enlarge = (one: TreeNode) => {
    zoom(one);
    setFocus(one);
  };
  const [hover, setHover] = useState<{ node: TreeNode; x: number; y: number } | null>(null);
  const theme = useTheme();
  const height = rowsOf * ROW;
  const view = boxes.find((box) => box.node === zoomed) ?? { node: root, from: 0, to: 1 };
  const rowTop = (depth: number) => (isUpright ? height - (depth + 1) * ROW : depth * ROW);
  const matches = useMemo(() => matching(root, props.search), [root, props.search]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the drawing takes its colours from the theme.
  useLayoutEffect(() => {
    const pen = canvas.current && prepare(canvas.current, width, height);
    if (pen) draw(pen, boxes, { view, width, rowTop, matches, focus: document.activeElement === canvas.current ? focus : null });
  }, [boxes, view, width, height, matches, focus, theme, isUpright]);

  const nodeAt = (event: MouseEvent): TreeNode | null => {
    const box = canvas.current?.getBoundingClientRect();
    if (!box) return null;
    const row = Math.floor((event.clientY - box.top) / ROW);
    const depth = isUpright ? rowsOf - 1 - row : row;
    const at = view.from + ((event.clientX - box.left) / width) * (view.to - view.from);
    const found = boxes.find((one) => one.node.depth === depth && one.from <= at && at < one.to);
    return found && isShown(found, view) ? found.node : null;
  };
  const use = (one: TreeNode) => {
    setFocus(one);
    const id = one.leaf?.rows[0]?.id;
    if (id) select(id);
    if (!one.leaf) zoom(one);
  };
  const press = (event: KeyboardEvent) => {
    const siblings = focus.parent ? ordered(focus.parent, props.isByAmount) : [focus];
    const place = siblings.indexOf(focus);
    const [inward, outward] = isUpright ? ["ArrowUp", "ArrowDown"] : ["ArrowDown", "ArrowUp"];
    const keys: Record<string, () => void> = {
      [inward ?? ""]: () => setFocus(ordered(focus, props.isByAmount)[0] ?? focus),
      [outward ?? ""]: () => setFocus(focus.parent ?? focus),
      ArrowRight: () => setFocus(siblings[place + 1] ?? focus),
      ArrowLeft: () => setFocus(siblings[place - 1] ?? focus),
      Enter: () => use(focus),
      " ": () => use(focus),
      Escape: () => enlarge(root),
    };
    const found = keys[event.key];
    if (!found || (event.key === "Escape" && zoomed === root)) return;
    found();
    event.preventDefault();
  };
  const words = (one: TreeNode) =>
    `${one.parent ? one.title : "all"}: ${format(one.amount)}${root.amount ? `, ${share(one.amount / root.amount)}` : ""}`;
  return (
    <div class="flame" ref={ref}>
      <nav class="flame-path" aria-label="Enlarged group">
        {pathTo(zoomed).map((one) => (
          <button type="button" class="link" key={one.key} aria-current={one === zoomed} onClick={() => enlarge(one)}>
            {one.parent ? one.title : "All"}
          </button>
        ))}
        <span class="dim">
          {format(zoomed.amount)}, {plural(zoomed.ops, "operation")}
        </span>
        {props.search.length > 0 && (
          <span class="dim">
            {matches ? `· ${plural(matches.found, "group")} found, ${format(matches.amount)}` : ""}
            {matches && root.amount ? ` (${share(matches.amount / root.amount)})` : ""}
          </span>
        )}
      </nav>
      <canvas
        ref={canvas}
        tabIndex={0}
        role="img"
        aria-label={`${props.label}. ${words(focus)}. Arrows move, Enter enlarges or selects, Escape shows all. The tree lists the same.`}
        onKeyDown={press}
        onFocus={() => setFocus((old) => (old === root ? zoomed : old))}
        onClick={(event) => {
          const found = nodeAt(event);
          if (found) use(found);
        }}
        onPointerMove={(event) => {
          const found = nodeAt(event);
          const box = canvas.current?.getBoundingClientRect();
          setHover(found && box ? { node: found, x: event.clientX - box.left, y: event.clientY - box.top } : null);
        }}
        onPointerLeave={() => setHover(null)}
      />
      <span class="hidden" aria-live="polite">
        {focus === root ? "" : words(focus)}
      </span>
      {hover && <Tip node={hover.node} total={root.amount} format={format} x={hover.x} below={height - hover.y} width={width} />}
    </div>
  );
}

function Tip(props: { node: TreeNode; total: number; format: (amount: number) => string; x: number; below: number; width: number }) {
  const { node, total, format } = props;
  const units = [...node.units].filter(([, amount]) => amount > 0).sort((a, b) => b[1] - a[1]);
  const left = Math.max(Math.min(props.x + 12, props.width - 300), 0);
  // Above the pointer: the section ends soon below the drawing.
  return (
    <div class="tip flame-tip" style={{ left: `${left}px`, bottom: `${props.below + 12}px` }}>
      <div>
        <b>{format(node.amount)}</b> {total > 0 && share(node.amount / total)}
      </div>
      <div class="strong">{node.parent ? node.title : "All"}</div>
      {node.leaf ? (
        <div>
          {node.leaf.label}
          {node.leaf.rows.length > 0 && node.leaf.title !== node.title && <div>{node.leaf.title}</div>}
        </div>
      ) : (
        <div>{plural(node.ops, "operation")}</div>
      )}
      {units.map(([unit, amount]) => (
        <div key={unit ?? "none"} class="dim">
          <span class={`swatch fill-${unit ?? "none"}`} /> {unit === "overhead" ? "overhead" : unit ? UNIT_NAMES[unit] : "unit not known"}
          {units.length > 1 && ` ${format(amount)}`}
        </div>
      ))}
      {node.parent?.parent && (
        <div class="faint">
          in{" "}
          {pathTo(node.parent)
            .slice(1)
            .map((one) => one.title)
            .join(" › ")}
        </div>
      )}
    </div>
  );
}

/** Boxes in program order, or the largest first; nodes without an amount have none. */
function layOut(root: TreeNode, isByAmount: boolean): Box[] {
  const boxes: Box[] = [];
  const place = (node: TreeNode, from: number, to: number) => {
    boxes.push({ node, from, to });
    let at = from;
    for (const child of ordered(node, isByAmount)) {
      if (child.amount <= 0) continue;
      const next = at + ((to - from) * child.amount) / node.amount;
      place(child, at, next);
      at = next;
    }
  };
  place(root, 0, 1);
  return boxes;
}

/** Whether a box is in the enlarged group, or contains it. */
const isShown = (box: Box, view: Box): boolean =>
  box.node.depth < view.node.depth ? box.from <= view.from && box.to >= view.to : box.from >= view.from && box.to <= view.to;

/** The nodes whose names contain all words; null where nothing is searched. */
function matching(root: TreeNode, search: readonly string[]): { nodes: Set<TreeNode>; found: number; amount: number } | null {
  if (search.length === 0) return null;
  const nodes = new Set<TreeNode>();
  let [found, amount] = [0, 0];
  const visit = (node: TreeNode, isInside: boolean) => {
    const text = [node.title, node.leaf?.title, node.leaf?.label, ...(node.leaf?.rows.map((row) => row.id) ?? [])].join(" ").toLowerCase();
    const isMatch = node.parent !== null && search.every((word) => text.includes(word));
    if (isMatch && !isInside) {
      found += 1;
      amount += node.amount;
    }
    if (isMatch || isInside) nodes.add(node);
    for (const child of node.children) visit(child, isMatch || isInside);
  };
  visit(root, false);
  return { nodes, found, amount };
}

interface Picture {
  view: Box;
  width: number;
  rowTop: (depth: number) => number;
  matches: { nodes: Set<TreeNode> } | null;
  focus: TreeNode | null;
}

function draw(pen: Pen, boxes: readonly Box[], picture: Picture): void {
  const { view, width, rowTop, matches, focus } = picture;
  const scale = width / (view.to - view.from);
  for (const box of boxes) {
    if (!isShown(box, view)) continue;
    const left = Math.max((box.from - view.from) * scale, 0);
    const right = Math.min((box.to - view.from) * scale, width);
    if (right - left < LEAST) continue;
    pen.context.globalAlpha = matches && !matches.nodes.has(box.node) ? 0.28 : 1;
    drawBox(pen, box.node, left, right, rowTop(box.node.depth));
    pen.context.globalAlpha = 1;
    if (box.node !== focus) continue;
    pen.context.strokeStyle = pen.colour("accent");
    pen.context.lineWidth = 2;
    pen.context.strokeRect(left + 1, rowTop(box.node.depth) + 1.5, right - left - 3, ROW - 3.5);
  }
}

function drawBox(pen: Pen, node: TreeNode, left: number, right: number, top: number): void {
  const { context, colour } = pen;
  const unit = mainUnit(node);
  const isPlain = !node.parent || unit === null || unit === "overhead";
  context.fillStyle = isPlain ? colour("raised") : colour(`${unit === "neural_engine" ? "ne" : unit}-soft`);
  context.fillRect(left, top + 0.5, Math.max(right - left - 1, LEAST), ROW - 1.5);
  if (node.leaf?.unit === "overhead") hatch(pen, left, top + 0.5, right - left - 1, ROW - 1.5);
  if (node.units.size > 1) drawUnits(pen, node, left, right, top);
  if (right - left >= LEGIBLE) write(pen, node.parent ? node.title : "All", left, right, top);
}

/** A strip at the lower edge, divided among the units of what is inside. */
function drawUnits({ context, colour }: Pen, node: TreeNode, left: number, right: number, top: number): void {
  let at = left;
  for (const [unit, amount] of node.units) {
    const wide = node.amount ? ((right - left - 1) * amount) / node.amount : 0;
    context.fillStyle = colour(unit === "neural_engine" ? "ne" : unit === null || unit === "overhead" ? "line-strong" : unit);
    context.fillRect(at, top + ROW - 4, wide, 3);
    at += wide;
  }
}

function write({ context, colour }: Pen, text: string, left: number, right: number, top: number): void {
  context.save();
  context.beginPath();
  context.rect(left, top, right - left - 4, ROW);
  context.clip();
  context.fillStyle = colour("text");
  context.fillText(text, left + 5, top + ROW / 2 - 1);
  context.restore();
}
