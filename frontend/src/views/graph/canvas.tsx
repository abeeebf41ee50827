import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Fold, isFold, type Part } from "../../data/folding";
import { type Edge, HEIGHT, type Layout, WIDTH } from "../../data/layout";
import { useReport } from "../../report";
import { useWidth } from "../../ui/width";
import { type Look, Node } from "./node";

const VIEW_HEIGHT = 560;
const [SMALLEST, LARGEST] = [0.02, 2.5];
/** The least scale at which names can be read. */
const READABLE = 0.65;

/** The visible part: the drawing's point at the upper left corner, and pixels per unit of the drawing. */
interface View {
  x: number;
  y: number;
  scale: number;
}

/** The graph as a drawing that can be dragged and zoomed. Only the visible part is rendered. */
export function Canvas(props: { layout: Layout; look: (part: Part) => Look; onToggle: (fold: Fold) => void }) {
  const { layout } = props;
  const { selected, select } = useReport();
  const [ref, width] = useWidth<HTMLDivElement>();
  const svg = useRef<SVGSVGElement>(null);
  const [view, setView] = useState<View>({ x: 0, y: 0, scale: 1 });
  const drag = useRef<{ x: number; y: number; from: View; moved: boolean } | null>(null);
  const fit = () => setView(whole(layout, width));
  const isTouched = useRef(false);
  useEffect(() => {
    // The drawing starts at the top in a readable size. Once moved, it keeps its position.
    if (!isTouched.current && layout.boxes.length) setView(beginning(layout, width));
  }, [layout, width]);

  const zoom = (factor: number, left = width / 2, top = VIEW_HEIGHT / 2) => {
    isTouched.current = true;
    setView((old) => {
      const scale = Math.min(Math.max(old.scale * factor, SMALLEST), LARGEST);
      return { scale, x: old.x + left / old.scale - left / scale, y: old.y + top / old.scale - top / scale };
    });
  };
  useZoomingWheel(svg, zoom);
  // A selection from another view, or a search, moves to its box.
  const place = layout.boxes.find((box) => box.part.id === selected);
  const isClicked = useRef(false);
  useEffect(() => {
    if (place && !isClicked.current) {
      isTouched.current = true;
      setView((old) => centred(place.x + WIDTH / 2, place.y + HEIGHT / 2, Math.max(old.scale, READABLE), width));
    }
    isClicked.current = false;
  }, [place, width]);

  const isSwitch = ({ from, to }: Edge): boolean => {
    const [source, target] = [unitAlone(props.look(from.part)), unitAlone(props.look(to.part))];
    return source !== null && target !== null && source !== target;
  };
  const seen = useMemo(() => inView(layout, view, width), [layout, view, width]);
  const use = (part: Part) => {
    if (drag.current?.moved) return;
    isTouched.current = true;
    if (isFold(part)) props.onToggle(part);
    else {
      isClicked.current = true;
      select(part.id);
    }
  };
  return (
    <div class="graph" ref={ref}>
      <svg
        ref={svg}
        width={width}
        height={VIEW_HEIGHT}
        role="group"
        aria-label={`Graph of ${layout.boxes.length} parts; drag to move, Ctrl and the wheel to zoom`}
        onPointerDown={(event) => {
          drag.current = { x: event.clientX, y: event.clientY, from: view, moved: false };
        }}
        onPointerMove={(event) => {
          const held = drag.current;
          if (!held || !event.buttons) return;
          const [right, down] = [event.clientX - held.x, event.clientY - held.y];
          held.moved ||= Math.abs(right) + Math.abs(down) > 4;
          isTouched.current ||= held.moved;
          if (held.moved) setView({ ...held.from, x: held.from.x - right / held.from.scale, y: held.from.y - down / held.from.scale });
        }}
      >
        <defs>
          <marker id="arrow" viewBox="0 0 8 8" refX={7} refY={4} markerWidth={6} markerHeight={6} orient="auto">
            <path class="arrow" d="M0,0.5L7,4L0,7.5Z" />
          </marker>
        </defs>
        <g transform={`scale(${view.scale}) translate(${-view.x} ${-view.y})`}>
          {seen.frames.map((frame) => (
            <g key={frame.fold.id}>
              <rect class="frame" x={frame.x} y={frame.y} width={frame.width} height={frame.height} rx={10} />
              <g
                class="frame-title"
                role="button"
                tabIndex={0}
                aria-label={`Fold ${frame.fold.title}`}
                transform={`translate(${frame.x + frame.width + 4} ${frame.y + 12})`}
                onClick={() => props.onToggle(frame.fold)}
                onKeyDown={(event) => event.key === "Enter" && props.onToggle(frame.fold)}
              >
                <text>⊟ {frame.fold.title}</text>
              </g>
            </g>
          ))}
          {seen.edges.map((edge) => (
            <path
              key={`${edge.from.part.id} ${edge.to.part.id}`}
              class={`edge${edge.to.rank - edge.from.rank > 1 ? " edge-long" : ""}${isSwitch(edge) ? " edge-switch" : ""}`}
              d={path(edge)}
              marker-end="url(#arrow)"
            >
              <title>{edgeText(edge, isSwitch(edge))}</title>
            </path>
          ))}
          {seen.boxes.map((box) => (
            <Node key={box.part.id} box={box} look={props.look(box.part)} isSelected={box.part.id === selected} onUse={use} />
          ))}
        </g>
      </svg>
      <Minimap
        layout={layout}
        view={view}
        width={width}
        onGo={(x, y) => {
          isTouched.current = true;
          setView((old) => centred(x, y, old.scale, width));
        }}
      />
      <div class="zoom">
        <button type="button" class="quiet" aria-label="Zoom in" onClick={() => zoom(1.4)}>
          +
        </button>
        <button type="button" class="quiet" aria-label="Zoom out" onClick={() => zoom(1 / 1.4)}>
          −
        </button>
        <button type="button" class="quiet" onClick={fit}>
          All
        </button>
      </div>
    </div>
  );
}

const MAP_HEIGHT = 150;
const MAP_WIDTH = 110;
/** Boxes of the overview; of more, every n-th is drawn. */
const MAP_BOXES = 1500;

/** The whole graph in a corner with the visible part; a click goes there. Not shown where everything is in view. */
function Minimap(props: { layout: Layout; view: View; width: number; onGo: (x: number, y: number) => void }) {
  const { layout, view, width } = props;
  const scale = Math.min(MAP_WIDTH / layout.width, MAP_HEIGHT / layout.height);
  const boxes = useMemo(() => {
    const step = Math.ceil(layout.boxes.length / MAP_BOXES);
    return layout.boxes
      .filter((_, index) => index % step === 0)
      .map((box) => `M${box.x},${box.y}h${WIDTH}v${HEIGHT}h${-WIDTH}z`)
      .join("");
  }, [layout]);
  const [seenWidth, seenHeight] = [width / view.scale, VIEW_HEIGHT / view.scale];
  if (seenWidth >= layout.width && seenHeight >= layout.height) return null;
  return (
    <svg
      class="minimap"
      width={Math.max(layout.width * scale, 24)}
      height={layout.height * scale}
      aria-hidden="true"
      onClick={(event) => {
        const frame = event.currentTarget.getBoundingClientRect();
        props.onGo((event.clientX - frame.left) / scale, (event.clientY - frame.top) / scale);
      }}
    >
      <g transform={`scale(${scale})`}>
        <path class="minimap-box" d={boxes} />
        <rect class="minimap-view" x={view.x} y={view.y} width={seenWidth} height={seenHeight} stroke-width={1.5 / scale} />
      </g>
    </svg>
  );
}

/** The unit that runs all operations of a part; null where there are several, or none is known. */
function unitAlone(look: Look): string | null {
  const [first, ...others] = look.units.keys();
  return first !== undefined && others.length === 0 ? first : null;
}

function edgeText({ from, to }: Edge, isSwitch: boolean): string {
  const name = (part: Part) => (isFold(part) ? part.title : part.layer || part.name);
  const shape = isFold(from.part) ? "" : `: ${from.part.output}`;
  return `${name(from.part)} → ${name(to.part)}${shape}${isSwitch ? " (change of unit)" : ""}`;
}

const centred = (x: number, y: number, scale: number, width: number): View => ({
  scale,
  x: x - width / scale / 2,
  y: y - VIEW_HEIGHT / scale / 2,
});

/** Ctrl (or ⌘, or a pinch) and the wheel zoom at the pointer; the wheel alone scrolls the page. */
function useZoomingWheel(target: { current: SVGSVGElement | null }, zoom: (factor: number, left: number, top: number) => void) {
  const latest = useRef(zoom);
  latest.current = zoom;
  useEffect(() => {
    const element = target.current;
    const listen = (event: WheelEvent) => {
      if (!element || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      const box = element.getBoundingClientRect();
      latest.current(Math.exp(-event.deltaY / 300), event.clientX - box.left, event.clientY - box.top);
    };
    element?.addEventListener("wheel", listen, { passive: false });
    return () => element?.removeEventListener("wheel", listen);
  }, [target]);
}

function whole(layout: Layout, width: number): View {
  const scale = Math.min(Math.max(Math.min(width / layout.width, VIEW_HEIGHT / layout.height), SMALLEST), 1);
  return { scale, x: (layout.width - width / scale) / 2, y: (layout.height - VIEW_HEIGHT / scale) / 2 };
}

function beginning(layout: Layout, width: number): View {
  const all = whole(layout, width);
  if (all.scale > READABLE) return all;
  const scale = READABLE;
  const [first, shown] = [layout.boxes[0]?.x ?? 0, width / scale];
  const middle = (layout.width - shown) / 2;
  return { scale, x: middle <= 0 ? middle : Math.min(Math.max(first + WIDTH / 2 - shown / 2, 0), layout.width - shown), y: 0 };
}

function inView(layout: Layout, view: View, width: number): Pick<Layout, "boxes" | "edges" | "frames"> {
  const [left, top] = [view.x, view.y];
  const [right, bottom] = [view.x + width / view.scale, view.y + VIEW_HEIGHT / view.scale];
  const isSeen = (x: number, y: number, w: number, h: number) => x < right && x + w > left && y < bottom && y + h > top;
  return {
    boxes: layout.boxes.filter((box) => isSeen(box.x, box.y, WIDTH, HEIGHT)),
    edges: layout.edges.filter(({ from, to }) => {
      const x = Math.min(from.x, to.x);
      return isSeen(x, from.y, Math.abs(from.x - to.x) + 2 * WIDTH, to.y - from.y + HEIGHT);
    }),
    frames: layout.frames.filter((frame) => isSeen(frame.x, frame.y, frame.width + WIDTH, frame.height)),
  };
}

/** The path of an edge; one that skips ranks bends out to the side. */
function path({ from, to }: Edge): string {
  const [x1, y1, x2, y2] = [from.x + WIDTH / 2, from.y + HEIGHT, to.x + WIDTH / 2, to.y];
  const down = Math.min(40, (y2 - y1) / 2);
  if (to.rank - from.rank === 1) return `M${x1},${y1}C${x1},${y1 + down} ${x2},${y2 - down} ${x2},${y2}`;
  const side = Math.max(x1, x2) + WIDTH / 2 + Math.min(18 + 5 * (to.rank - from.rank), 90);
  return `M${x1 + 24},${y1}C${side},${y1 + down} ${side},${y1 + down} ${side},${(y1 + y2) / 2}S${side},${y2 - down} ${x2 + 24},${y2}`;
}
