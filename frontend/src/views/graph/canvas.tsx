import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { type Fold, isFold, type Part } from "../../data/folding";
import type { Switch } from "../../data/lanes";
import type { Row } from "../../data/rows";
import { HEIGHT, WIDTH } from "../../layout/shapes";
import { useReport } from "../../report";
import { type Looks, wordsOf } from "./look";
import { Minimap } from "./minimap";
import type { Names } from "./names";
import { nodeId } from "./node";
import { beginning, boxAt, centred, overlaps, READABLE, type Rectangle, type View, whole, zoomed } from "./paths";
import { type Laid, Picture } from "./picture";
import { type Direction, neighbour } from "./steps";

/** The graph as a drawing that can be dragged, zoomed and walked through. */
export function Canvas(props: {
  laid: Laid;
  looks: Looks;
  names: Names;
  size: { width: number; height: number };
  isBusy: boolean;
  search: RefObject<HTMLInputElement | null>;
  changes: readonly Switch[];
  /** What is said of the selected parts; empty where none are. */
  sum: string;
  onToggle: (fold: Fold) => void;
  /** Goes to the next or the previous change of unit. */
  onChange: (step: 1 | -1) => void;
  /** Selects parts, in addition to those that are or none. */
  onPick: (parts: readonly Part[], isMore: boolean) => void;
}) {
  const { laid, looks } = props;
  const { rows } = useReport();
  const [isPicking, setPicking] = useState(false);
  const { width, height } = props.size;
  const { drawing, positions } = laid;
  const svg = useRef<SVGSVGElement>(null);
  const [view, setView] = useView(laid, width, height);
  const [current, use, go] = useCurrent(props, setView);
  const zoom = (factor: number, left = width / 2, top = height / 2) => setView((old) => zoomed(old, factor, left, top));
  const fit = () => setView(() => whole(positions, width, height));
  useZoomingWheel(svg, zoom);
  const pick = (area: Rectangle, isMore: boolean) =>
    props.onPick(
      drawing.boxes.filter((_, index) => overlaps(boxAt(positions, index), area)),
      isMore,
    );
  const drag = useDrag(view, setView, zoom, isPicking, pick);
  const keys: Record<string, () => void> = {
    "+": () => zoom(1.3),
    "=": () => zoom(1.3),
    "-": () => zoom(1 / 1.3),
    "0": fit,
    "/": () => props.search.current?.focus(),
    n: () => props.onChange(1),
    p: () => props.onChange(-1),
    ...(props.sum && { Escape: () => props.onPick([], false) }),
    Enter: () => current && use(current),
    " ": () => current && use(current),
    Backspace: () => {
      const around = current && drawing.frames.filter((fold) => fold.rows.includes(isFold(current) ? (current.rows[0] as Row) : current));
      const inner = around?.at(-1);
      if (inner) props.onToggle(inner);
    },
  };
  const press = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key.startsWith("Arrow")) {
      const from = current ? drawing.boxes.indexOf(current) : -1;
      const next = from < 0 ? 0 : neighbour(drawing, positions, from, event.key as Direction);
      const part = next === null ? undefined : drawing.boxes[next];
      if (part) go(part);
    } else if (keys[event.key]) keys[event.key]?.();
    else return;
    event.preventDefault();
  };
  return (
    <div class={`graph ${props.isBusy ? "graph-busy" : ""}`}>
      {/* biome-ignore lint/a11y/useAriaActivedescendantWithTabindex: in SVG, tabindex is spelt in lower case. */}
      <svg
        ref={svg}
        width={width}
        height={height}
        role="group"
        tabindex={0}
        aria-label={`Graph of ${drawing.boxes.length} parts. Arrow keys follow edges, Enter unfolds, Backspace folds, plus and minus zoom, 0 shows all, slash finds, N goes to the next change of unit, Shift and dragging select`}
        aria-activedescendant={current ? nodeId(current) : undefined}
        onKeyDown={press}
        {...drag.handlers}
      >
        <defs>
          <marker id="arrow" viewBox="0 0 8 8" refX={7} refY={4} markerWidth={6} markerHeight={6} orient="auto">
            <path class="arrow" d="M0,0.5L7,4L0,7.5Z" />
          </marker>
        </defs>
        <g transform={`scale(${view.scale}) translate(${-view.x} ${-view.y})`}>
          <Picture
            {...{ laid, looks, names: props.names, view, width, height, current, rows, changes: props.changes }}
            onUse={(part, event) => {
              if (drag.isMoved()) return;
              if (isPicking || event?.shiftKey || event?.ctrlKey || event?.metaKey) props.onPick([part], true);
              else use(part);
            }}
            onFold={(fold) => {
              if (!drag.isMoved()) props.onToggle(fold);
            }}
          />
          {drag.area && <rect class="graph-area" {...drag.area} />}
        </g>
      </svg>
      <Minimap {...{ positions, view, width, height }} onGo={(x, y) => setView((old) => centred(x, y, old.scale, width, height))} />
      <div class="graph-foot">
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
          <button type="button" class="quiet" aria-pressed={isPicking} onClick={() => setPicking(!isPicking)}>
            Select
          </button>
        </div>
        <p class="graph-words" aria-live="polite">
          {props.sum ||
            (current
              ? wordsOf(current, looks.of(current))
              : "Drag to move, with Shift to select; Ctrl and the wheel, or two fingers, zoom. Arrow keys follow edges.")}
        </p>
      </div>
    </div>
  );
}

type Change = (change: (old: View) => View) => void;

const start = ({ positions, drawing }: Laid, width: number, height: number): View =>
  beginning(positions, drawing.boxes.length > 0 ? boxAt(positions, 0) : undefined, width, height);

/** The view: the first block at first, and of a graph that was unfolded; a fold that was opened or closed stays where it is. */
function useView(laid: Laid, width: number, height: number): [View, Change] {
  const [view, setView] = useState<View>(() => start(laid, width, height));
  const before = useRef({ laid, width, height });
  useLayoutEffect(() => {
    const old = before.current;
    before.current = { laid, width, height };
    const isStart = (seen: View) => {
      const first = start(old.laid, old.width, old.height);
      return seen.scale === first.scale && seen.x === first.x && seen.y === first.y;
    };
    setView((seen) => {
      if (old.laid.fitted !== laid.fitted || isStart(seen)) return start(laid, width, height);
      const resized = { ...seen, x: seen.x + (old.width - width) / seen.scale / 2, y: seen.y + (old.height - height) / seen.scale / 2 };
      return old.laid === laid ? resized : kept(resized, old.laid, laid, width, height);
    });
  }, [laid, width, height]);
  return [view, setView];
}

/** Moves the view with the box in its middle. */
function kept(view: View, old: Laid, laid: Laid, width: number, height: number): View {
  const [x, y] = [view.x + width / view.scale / 2, view.y + height / view.scale / 2];
  let [nearest, least] = [-1, Number.POSITIVE_INFINITY];
  old.drawing.boxes.forEach((_, index) => {
    const box = boxAt(old.positions, index);
    const distance = Math.hypot(box.x + WIDTH / 2 - x, box.y + HEIGHT / 2 - y);
    if (distance < least) [nearest, least] = [index, distance];
  });
  const part = old.drawing.boxes[nearest];
  const row = part && (isFold(part) ? part.rows[0] : part);
  const index = row ? laid.drawing.boxOf.get(row) : undefined;
  if (index === undefined) return whole(laid.positions, width, height);
  const [was, is] = [boxAt(old.positions, nearest), boxAt(laid.positions, index)];
  return { ...view, x: view.x + is.x - was.x, y: view.y + is.y - was.y };
}

/** The current box: that of the selected operation, or a fold. */
function useCurrent(
  props: { laid: Laid; size: { width: number; height: number }; onToggle: (fold: Fold) => void },
  setView: Change,
): [Part | null, (part: Part) => void, (part: Part) => void] {
  const { drawing, positions } = props.laid;
  const { width, height } = props.size;
  const { selected, select, rows } = useReport();
  const [fold, setFold] = useState<string | null>(null);
  const row = selected === null ? undefined : rows.byId.get(selected);
  const selectedBox = row && drawing.boxes[drawing.boxOf.get(row) ?? -1];
  const current = drawing.boxes.find((part) => isFold(part) && part.id === fold) ?? selectedBox ?? null;
  const place = selectedBox ? drawing.boxes.indexOf(selectedBox) : -1;
  const shown = selectedBox ? `${selected} in ${selectedBox.id}` : null;
  const seen = useRef<string | null>(null);
  // A selection from another view, or a search, moves to its box.
  useEffect(() => {
    if (shown === null || seen.current === shown) return;
    seen.current = shown;
    const box = boxAt(positions, place);
    setFold(null);
    setView((old) => centred(box.x + WIDTH / 2, box.y + HEIGHT / 2, Math.max(old.scale, READABLE), width, height));
  }, [shown, place, positions, width, height, setView]);
  const mark = (part: Part) => {
    setFold(isFold(part) ? part.id : null);
    if (isFold(part) || part.id === selected) return;
    seen.current = `${part.id} in ${part.id}`;
    select(part.id);
  };
  const use = (part: Part) => {
    mark(part);
    if (isFold(part)) props.onToggle(part);
  };
  const go = (part: Part) => {
    mark(part);
    const box = boxAt(positions, drawing.boxes.indexOf(part));
    setView((old) => {
      const inner = { x: old.x, y: old.y, width: width / old.scale - WIDTH, height: height / old.scale - HEIGHT };
      const isReadable = old.scale >= READABLE / 2;
      if (isReadable && overlaps({ ...box, width: 1, height: 1 }, inner)) return old;
      return centred(box.x + WIDTH / 2, box.y + HEIGHT / 2, isReadable ? old.scale : READABLE, width, height);
    });
  };
  return [current, use, go];
}

/** Dragging moves, or selects an area; two fingers zoom. */
function useDrag(
  view: View,
  setView: Change,
  zoom: (factor: number, left: number, top: number) => void,
  isPicking: boolean,
  onPick: (area: Rectangle, isMore: boolean) => void,
) {
  const held = useRef<{ x: number; y: number; from: View; moved: boolean; picks: boolean } | null>(null);
  const [area, setArea] = useState<Rectangle | null>(null);
  const fingers = useRef(new Map<number, { x: number; y: number }>());
  const end = (event: PointerEvent) => {
    fingers.current.delete(event.pointerId);
    if (area) onPick(area, event.ctrlKey || event.metaKey);
    setArea(null);
  };
  const areaTo = (event: PointerEvent & { currentTarget: SVGSVGElement }, from: { x: number; y: number }): Rectangle => {
    const box = event.currentTarget.getBoundingClientRect();
    const [left, top] = [Math.min(from.x, event.clientX) - box.left, Math.min(from.y, event.clientY) - box.top];
    const size = { width: Math.abs(event.clientX - from.x) / view.scale, height: Math.abs(event.clientY - from.y) / view.scale };
    return { x: view.x + left / view.scale, y: view.y + top / view.scale, ...size };
  };
  const pinch = (event: PointerEvent & { currentTarget: SVGSVGElement }) => {
    const spread = () => {
      const [a, b] = [...fingers.current.values()];
      return a && b ? Math.hypot(a.x - b.x, a.y - b.y) : 0;
    };
    const before = spread();
    fingers.current.set(event.pointerId, { x: event.clientX, y: event.clientY });
    const [a, b] = [...fingers.current.values()];
    const box = event.currentTarget.getBoundingClientRect();
    if (a && b && before > 0) zoom(spread() / before, (a.x + b.x) / 2 - box.left, (a.y + b.y) / 2 - box.top);
  };
  return {
    area,
    isMoved: () => held.current?.moved ?? false,
    handlers: {
      onPointerDown: (event: PointerEvent) => {
        fingers.current.set(event.pointerId, { x: event.clientX, y: event.clientY });
        const picks = isPicking || event.shiftKey;
        held.current = { x: event.clientX, y: event.clientY, from: view, moved: fingers.current.size > 1, picks };
      },
      onPointerMove: (event: PointerEvent & { currentTarget: SVGSVGElement }) => {
        const one = held.current;
        if (!one || !event.buttons) return;
        if (fingers.current.size > 1) {
          one.moved = true;
          pinch(event);
          return;
        }
        const [right, down] = [event.clientX - one.x, event.clientY - one.y];
        one.moved ||= Math.abs(right) + Math.abs(down) > 4;
        if (one.moved && one.picks) setArea(areaTo(event, one));
        else if (one.moved) setView((old) => ({ ...old, x: one.from.x - right / old.scale, y: one.from.y - down / old.scale }));
      },
      onPointerUp: end,
      onPointerCancel: end,
      onPointerLeave: end,
    },
  };
}

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
