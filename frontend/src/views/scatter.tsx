import type { ComponentChildren } from "preact";
import { axis } from "../data/axis";
import { plural } from "../format";
import { type Labelled, placeLabels, type Spot } from "../layout/labels";
import { useWidth } from "../ui/width";

/** A point of the chart. */
export interface Mark {
  id: string | number;
  name: string;
  x: number;
  /** Null for a value above all numbers. */
  y: number | null;
  /** Whether no other one is better in both. */
  isBest: boolean;
  /** Whether it is hollow: not to be chosen. */
  isOff?: boolean;
  title: string;
  href?: string | null;
}

const HEIGHT = 360;
const EDGE = { left: 76, right: 24, top: 18, bottom: 44 };
/** The room of points above all numbers. */
const ABOVE = 34;
/** The radius of the best points, and of others. */
const BEST = 6;
const OTHER = 4;
/** Letters of a label that have room. */
const LETTERS = 26;
/** Of more points only the best ones have labels. */
const MANY = 60;
/** The room of a number along each axis. */
const TICK = { x: 56, y: 28 };

/** The points with their labels' texts. */
function labelled(marks: readonly Mark[], place: (mark: Mark) => readonly [number, number]): (Labelled & { mark: Mark })[] {
  return marks.map((mark) => {
    const [x, y] = place(mark);
    const text = mark.name.length > LETTERS ? `${mark.name.slice(0, LETTERS)}…` : mark.name;
    return { mark, x, y, text, radius: mark.isBest ? BEST : OTHER };
  });
}

/** Points over two numbers; a line joins the best ones. */
export function Scatter(props: {
  marks: readonly Mark[];
  noun: string;
  formatX: (value: number) => string;
  formatY: (value: number) => string;
  /** What points above all numbers are called. */
  above?: string;
  isFromZero?: boolean;
}) {
  const { marks, above, formatX, formatY } = props;
  const [ref, width] = useWidth<HTMLDivElement>();
  const numbers = marks.flatMap(({ y }) => (y === null ? [] : [y]));
  const top = EDGE.top + (above ? ABOVE : 0);
  const x = axis(
    marks.map((mark) => mark.x),
    [EDGE.left, width - EDGE.right],
    TICK.x,
    true,
  );
  const y = axis(numbers.length ? numbers : [0, 1], [HEIGHT - EDGE.bottom, top], TICK.y, props.isFromZero ?? false);
  const place = (mark: Mark) => [x.place(mark.x), mark.y === null ? EDGE.top + 8 : y.place(mark.y)] as const;
  const points = labelled(marks, place);
  const best = points.filter(({ mark }) => mark.isBest);
  const others = points.filter(({ mark }) => !mark.isBest);
  const spots = placeLabels([...best, ...others], { left: EDGE.left, right: width, top: 0, bottom: HEIGHT - EDGE.bottom });
  const isShown = (mark: Mark) => marks.length <= MANY || mark.isBest;
  const line = best.map(({ mark }) => mark).sort((a, b) => a.x - b.x);
  return (
    <div ref={ref}>
      <svg
        width={width}
        height={HEIGHT}
        class="variants-chart"
        role={marks.some((mark) => mark.href) ? "group" : "img"}
        aria-label={`${plural(marks.length, props.noun)}; the best are ${line.map((mark) => mark.name).join(", ")}`}
      >
        {y.ticks.map((tick) => (
          <g key={`y${tick}`}>
            <line class="grid" x1={EDGE.left} x2={width - EDGE.right} y1={y.place(tick)} y2={y.place(tick)} />
            <Tick x={EDGE.left - 6} y={y.place(tick)} anchor="end">
              {formatY(tick)}
            </Tick>
          </g>
        ))}
        {above && (
          <Tick x={EDGE.left - 6} y={EDGE.top + 8} anchor="end">
            {above}
          </Tick>
        )}
        {x.ticks.map((tick) => (
          <g key={`x${tick}`}>
            <line class="grid" x1={x.place(tick)} x2={x.place(tick)} y1={EDGE.top} y2={HEIGHT - EDGE.bottom} />
            <Tick x={x.place(tick)} y={HEIGHT - EDGE.bottom + 12} anchor="middle">
              {tick ? formatX(tick) : "0"}
            </Tick>
          </g>
        ))}
        <polyline class="roof" points={line.map((mark) => place(mark).join(",")).join(" ")} />
        {[...others, ...best].map((point) => (
          <Point key={point.mark.id} {...point} spot={isShown(point.mark) ? spots.get(point) : undefined} />
        ))}
      </svg>
    </div>
  );
}

function Tick(props: { x: number; y: number; anchor: "start" | "middle" | "end"; children: ComponentChildren }) {
  return (
    <text class="tick" x={props.x} y={props.y} dy="0.32em" text-anchor={props.anchor}>
      {props.children}
    </text>
  );
}

function Point(props: Labelled & { mark: Mark; spot: Spot | undefined }) {
  const { mark, spot, text, x, y, radius } = props;
  const drawn = (
    <>
      <circle class={`point ${mark.isBest ? "point-best" : mark.isOff ? "point-off" : ""}`} cx={x} cy={y} r={radius}>
        <title>{mark.title}</title>
      </circle>
      {spot && <Tick {...spot}>{text}</Tick>}
    </>
  );
  return mark.href ? <a href={mark.href}>{drawn}</a> : <g>{drawn}</g>;
}
