import { useMemo, useRef } from "preact/hooks";
import type { Drawing } from "../../data/drawing";
import type { Fold, Part } from "../../data/folding";
import type { Switch } from "../../data/lanes";
import type { Rows } from "../../data/rows";
import { plural } from "../../format";
import { HEIGHT, type Line, type Positions, WIDTH } from "../../layout/shapes";
import { breakWords, type Looks, lineWords } from "./look";
import { type Names, nameOf, shorten } from "./names";
import { heat, Node } from "./node";
import { around, boxAt, linePath, overlaps, type Rectangle, TEXT, type View } from "./paths";

/** A drawing with its positions. */
export interface Laid {
  drawing: Drawing;
  positions: Positions;
  /** Changes where its beginning is to be shown again. */
  fitted: number;
}

/** Where the drawing is larger than this, values that have no lines are named, and changes of unit are. */
const NAMED = 0.42;

/**
 * The boxes, frames and lines of a graph, in its own units. Where all is small, boxes of one colour are one path; else only those
 * in and around the view are drawn.
 */
export function Picture(props: {
  laid: Laid;
  looks: Looks;
  names: Names;
  view: View;
  width: number;
  height: number;
  /** The current box. */
  current: Part | null;
  rows: Rows;
  changes: readonly Switch[];
  onUse: (part: Part, event?: MouseEvent) => void;
  onFold: (fold: Fold) => void;
}) {
  const { laid, looks, names, view, current, changes, rows } = props;
  const isNear = view.scale >= TEXT;
  const region = useRegion(view, props.width, props.height, laid);
  const latest = useRef(props.onUse);
  latest.current = props.onUse;
  const all = useMemo(() => <Far laid={laid} looks={looks} />, [laid, looks]);
  const some = useMemo(
    () => (isNear ? <Near {...{ laid, looks, names, region, current }} onUse={(part, event) => latest.current(part, event)} /> : null),
    [isNear, laid, looks, names, region, current],
  );
  const breaks = useMemo(() => <Breaks {...{ laid, region, changes, rows }} />, [laid, region, changes, rows]);
  const far = useMemo(() => <FarReaders laid={laid} region={region} onUse={(part) => latest.current(part)} />, [laid, region]);
  return (
    <>
      <Frames laid={laid} region={region} />
      {isNear ? some : all}
      <Titles {...{ laid, looks, region }} scale={view.scale} onFold={props.onFold} />
      {view.scale >= NAMED && breaks}
      {view.scale >= NAMED && far}
      {current && <Ways laid={laid} current={current} scale={view.scale} />}
    </>
  );
}

/** What is drawn: the view and what surrounds it, so that small moves draw nothing anew. */
function useRegion(view: View, width: number, height: number, laid: Laid): Rectangle {
  const known = useRef<{ laid: Laid; scale: number; region: Rectangle } | null>(null);
  const [w, h] = [width / view.scale, height / view.scale];
  const { laid: before, scale, region } = known.current ?? {};
  const isInside =
    region && view.x >= region.x && view.y >= region.y && view.x + w <= region.x + region.width && view.y + h <= region.y + region.height;
  if (region && before === laid && isInside && scale && view.scale / scale < 2) return region;
  const wider = { x: view.x - w / 2, y: view.y - h / 2, width: w * 2, height: h * 2 };
  known.current = { laid, scale: view.scale, region: wider };
  return wider;
}

function Frames(props: { laid: Laid; region: Rectangle }) {
  return (
    <>
      {props.laid.positions.frames.map((frame, index) => {
        if (!overlaps(frame, props.region)) return null;
        const id = props.laid.drawing.frames[index]?.id;
        return <rect key={id} class="frame" x={frame.x} y={frame.y} width={frame.width} height={frame.height} rx={9} />;
      })}
    </>
  );
}

/** The most that titles grow where they are within their frames; larger ones are left out where they would cover others. */
const LARGE = 17;

/** Titles of frames, which fold them. Where all is small, they keep a readable size and are over the boxes. */
function Titles(props: { laid: Laid; looks: Looks; scale: number; region: Rectangle; onFold: (fold: Fold) => void }) {
  const { drawing, positions } = props.laid;
  const wanted = 12.5 / Math.min(props.scale, 1);
  const size = props.scale >= TEXT ? Math.min(wanted, LARGE) : wanted;
  const taken: Rectangle[] = [];
  return (
    <>
      {positions.frames.map((frame, index) => {
        const fold = drawing.frames[index];
        const most = Math.floor((frame.width - 10) / (size * 0.58)) - 2;
        if (!fold || most < 4 || !overlaps(frame, props.region)) return null;
        const title = shorten([fold.title, props.looks.sum(fold)].filter(Boolean).join(" · "), most);
        const space = { x: frame.x, y: frame.y, width: (title.length + 3) * size * 0.58, height: size * 1.3 };
        if (props.scale < TEXT && taken.some((one) => overlaps(one, space))) return null;
        taken.push(space);
        return (
          <g key={fold.id} class="frame-title" role="button" tabindex={-1} onClick={() => props.onFold(fold)}>
            <title>Fold {fold.title}</title>
            <text x={frame.x + 8} y={frame.y + 4 + size * 0.85} style={{ fontSize: `${size}px`, strokeWidth: `${size * 0.3}px` }}>
              ⊟ {title}
            </text>
          </g>
        );
      })}
    </>
  );
}

const LINES = ["", "edge-switch", "edge-critical"] as const;

/** Everything, as one path for each colour. */
function Far(props: { laid: Laid; looks: Looks }) {
  const { drawing, positions } = props.laid;
  const boxes = new Map<string, string>();
  const add = (key: string, path: string) => boxes.set(key, (boxes.get(key) ?? "") + path);
  drawing.boxes.forEach((part, index) => {
    const { x, y } = boxAt(positions, index);
    const look = props.looks.of(part);
    const [unit, ...others] = look.units.keys();
    const path = `M${x},${y}h${WIDTH}v${HEIGHT}h${-WIDTH}z`;
    add(
      look.share === null ? (unit && others.length === 0 ? `fill-${unit}` : "far-mixed") : `heat ${Math.ceil(heat(look.share) * 10)}`,
      path,
    );
    if (look.isCritical || look.isFound) add(look.isFound ? "far-found" : "far-critical", path);
  });
  const lines = new Map<string, string>();
  for (const line of positions.lines) {
    const kind = props.looks.lineClass(line, drawing);
    lines.set(kind, (lines.get(kind) ?? "") + linePath(line));
  }
  return (
    <>
      {LINES.map((kind) => (
        <path key={kind} class={`edge ${kind}`} d={lines.get(kind) ?? ""} />
      ))}
      {[...boxes].map(([key, paths]) =>
        key.startsWith("heat") ? (
          <g key={key}>
            <path class="far-mixed" d={paths} />
            <path class="node-heat" style={{ opacity: Number(key.slice(5)) / 10 }} d={paths} />
          </g>
        ) : (
          <path key={key} class={`far ${key}`} d={paths} />
        ),
      )}
    </>
  );
}

function Near(props: {
  laid: Laid;
  looks: Looks;
  names: Names;
  region: Rectangle;
  current: Part | null;
  onUse: (part: Part, event: MouseEvent) => void;
}) {
  const { laid, looks, names, region } = props;
  const { drawing, positions } = laid;
  const lines = positions.lines.filter((line) => overlaps(around(line), region));
  // Those that stand out are drawn last.
  const ordered = LINES.flatMap((kind) => lines.filter((line) => looks.lineClass(line, drawing) === kind));
  return (
    <>
      {ordered.map((line) => (
        <path
          key={`${line.edges.join()} ${line.points.slice(0, 2).join()}`}
          class={`edge ${looks.lineClass(line, drawing)}`}
          d={linePath(line)}
          marker-end={line.isEnd ? "url(#arrow)" : undefined}
        >
          <title>{lineWords(line, drawing, looks)}</title>
        </path>
      ))}
      {drawing.boxes.map((part, index) => {
        const box = boxAt(positions, index);
        if (!overlaps(box, region)) return null;
        return (
          <Node
            key={part.id}
            {...{ part, x: box.x, y: box.y, look: looks.of(part), name: names.of(part) }}
            isCurrent={part === props.current}
            onUse={props.onUse}
          />
        );
      })}
    </>
  );
}

/** Where the unit changes: from which to which, and what it costs, above the operation that follows. */
function Breaks(props: { laid: Laid; region: Rectangle; rows: Rows; changes: readonly Switch[] }) {
  const { drawing, positions } = props.laid;
  const found = new Map<number, Switch[]>();
  for (const change of props.changes) {
    const row = props.rows.byId.get(change.id);
    const index = row && drawing.boxOf.get(row);
    if (index !== undefined) found.set(index, [...(found.get(index) ?? []), change]);
  }
  return (
    <>
      {[...found].map(([index, changes]) => {
        const box = boxAt(positions, index);
        if (!overlaps(box, props.region)) return null;
        return (
          <g key={index} class="break">
            <path d={`M${box.x},${box.y - 4}h${WIDTH}`} />
            <text x={box.x + 2} y={box.y - 9}>
              {breakWords(changes)}
            </text>
          </g>
        );
      })}
    </>
  );
}

/** Marks of values without lines: at their readers what they read, and where they are made how many read them. */
function FarReaders(props: { laid: Laid; region: Rectangle; onUse: (part: Part) => void }) {
  const { drawing, positions } = props.laid;
  const [made, read] = [new Map<number, number[]>(), new Map<number, number[]>()];
  for (const index of positions.far) {
    const { from, to } = drawing.edges[index] ?? { from: 0, to: 0 };
    made.set(from, [...(made.get(from) ?? []), to]);
    read.set(to, [...(read.get(to) ?? []), from]);
  }
  const mark = (index: number, others: readonly number[], isRead: boolean) => {
    const box = boxAt(positions, index);
    const [part] = others.map((one) => drawing.boxes[one]);
    if (!part || !overlaps(box, props.region)) return null;
    const more = others.length - 1;
    const text = isRead ? `${shorten(nameOf(part), 13)}${more ? ` +${more}` : ""} ↴` : `↳ ${plural(others.length, "reader")}`;
    return (
      <text
        key={`${isRead} ${index}`}
        class="edge-far"
        role="button"
        tabindex={-1}
        x={box.x + 2}
        y={isRead ? box.y - 6 : box.y + HEIGHT + 14}
        onClick={() => props.onUse(part)}
      >
        <title>
          {others
            .map((one) => nameOf(drawing.boxes[one] as Part))
            .slice(0, 20)
            .join("\n")}
        </title>
        {text}
      </text>
    );
  };
  return (
    <>
      {[...read].map(([index, others]) => mark(index, others, true))}
      {[...made].map(([index, others]) => mark(index, others, false))}
    </>
  );
}

/** The lines into and out of the current box; straight ones for values without lines. */
function Ways(props: { laid: Laid; current: Part; scale: number }) {
  const { drawing, positions } = props.laid;
  const index = drawing.boxes.indexOf(props.current);
  const touched = new Set<number>();
  drawing.edges.forEach((edge, number) => {
    if (edge.from === index || edge.to === index) touched.add(number);
  });
  const lines = positions.lines.filter((line: Line) => line.edges.some((edge) => touched.has(edge)));
  const far = positions.far
    .filter((edge) => touched.has(edge))
    .map((edge) => {
      const [from, to] = [boxAt(positions, drawing.edges[edge]?.from ?? 0), boxAt(positions, drawing.edges[edge]?.to ?? 0)];
      return `M${from.x + WIDTH / 2},${from.y + HEIGHT}L${to.x + WIDTH / 2},${to.y}`;
    });
  return (
    <path
      class="edge edge-current"
      d={[...lines.map(linePath), ...far].join("")}
      style={{ strokeWidth: `${2.2 / Math.min(props.scale, 1)}px` }}
    />
  );
}
