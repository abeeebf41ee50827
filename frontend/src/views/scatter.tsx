import type { ComponentChildren } from "preact";
import { axis } from "../data/axis";
import { plural } from "../format";
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
  title: string;
  href?: string | null;
}

const HEIGHT = 360;
const EDGE = { left: 76, right: 24, top: 18, bottom: 44 };
/** The room of points above all numbers. */
const ABOVE = 34;
/** The width of a label, and the height of a line. */
const LABEL = 160;
const LINE = 13;
/** Letters of a label that have room. */
const LETTERS = 26;
/** Of more points only the best ones have labels. */
const MANY = 60;
/** The room of a number along each axis. */
const TICK = { x: 56, y: 28 };

/** Whether the label of a point is at its left, since there is no room at the right. */
const isFar = (left: number, width: number): boolean => left > width - LABEL;

/** The points whose labels do not cover others; the best ones first. */
function uncovered(marks: readonly Mark[], place: (mark: Mark) => readonly [number, number], width: number): Set<Mark> {
  const taken: (readonly [number, number])[] = [];
  const shown = [...marks]
    .sort((a, b) => Number(b.isBest) - Number(a.isBest))
    .filter((mark) => {
      const [at, top] = place(mark);
      const left = isFar(at, width) ? at - LABEL : at;
      const isFree = taken.every(([x, y]) => Math.abs(x - left) > LABEL || Math.abs(y - top) >= LINE);
      if (isFree) taken.push([left, top]);
      return isFree;
    });
  return new Set(marks.length > MANY ? shown.filter((mark) => mark.isBest) : shown);
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
  const labelled = uncovered(marks, place, width);
  const best = marks.filter((mark) => mark.isBest).sort((a, b) => a.x - b.x);
  return (
    <div ref={ref}>
      <svg
        width={width}
        height={HEIGHT}
        class="variants-chart"
        role={marks.some((mark) => mark.href) ? "group" : "img"}
        aria-label={`${plural(marks.length, props.noun)}; the best are ${best.map((mark) => mark.name).join(", ")}`}
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
        <polyline class="roof" points={best.map((mark) => place(mark).join(",")).join(" ")} />
        {marks.map((mark) => (
          <Point key={mark.id} mark={mark} at={place(mark)} isLabelled={labelled.has(mark)} width={width} />
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

function Point(props: { mark: Mark; at: readonly [number, number]; isLabelled: boolean; width: number }) {
  const { mark } = props;
  const [left, top] = props.at;
  const isLeft = isFar(left, props.width);
  const drawn = (
    <>
      <circle class={`point ${mark.isBest ? "point-best" : ""}`} cx={left} cy={top} r={mark.isBest ? 6 : 4}>
        <title>{mark.title}</title>
      </circle>
      {props.isLabelled && (
        <Tick x={left + (isLeft ? -9 : 9)} y={top} anchor={isLeft ? "end" : "start"}>
          {mark.name.length > LETTERS ? `${mark.name.slice(0, LETTERS)}…` : mark.name}
        </Tick>
      )}
    </>
  );
  return mark.href ? <a href={mark.href}>{drawn}</a> : <g>{drawn}</g>;
}
