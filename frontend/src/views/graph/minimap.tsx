import { useMemo } from "preact/hooks";
import { HEIGHT, type Positions, WIDTH } from "../../layout/shapes";
import { boxAt, type View } from "./paths";

const [MAP_WIDTH, MAP_HEIGHT] = [168, 120];
/** Boxes of the overview; of more, every n-th is drawn. */
const MAP_BOXES = 1500;
/** The part of the whole that may be out of view although everything counts as seen. */
const SLACK = 0.01;

/** The whole graph in a corner with the visible part; a click goes there. Not shown where everything is in view. */
export function Minimap(props: { positions: Positions; view: View; width: number; height: number; onGo: (x: number, y: number) => void }) {
  const { positions, view } = props;
  const scale = Math.min(MAP_WIDTH / positions.width, MAP_HEIGHT / positions.height);
  const boxes = useMemo(() => {
    const count = positions.boxes.length / 2;
    const step = Math.ceil(count / MAP_BOXES);
    let path = "";
    for (let index = 0; index < count; index += step) {
      const { x, y } = boxAt(positions, index);
      path += `M${x},${y}h${WIDTH}v${HEIGHT}h${-WIDTH}z`;
    }
    return path;
  }, [positions]);
  const [seenWidth, seenHeight] = [props.width / view.scale, props.height / view.scale];
  const isSeen = (from: number, seen: number, all: number) => from <= all * SLACK && from + seen >= all * (1 - SLACK);
  if (isSeen(view.x, seenWidth, positions.width) && isSeen(view.y, seenHeight, positions.height)) return null;
  return (
    <svg
      class="minimap"
      width={Math.max(positions.width * scale, 24)}
      height={Math.max(positions.height * scale, 16)}
      aria-hidden="true"
      onPointerDown={(event) => {
        const frame = event.currentTarget.getBoundingClientRect();
        event.stopPropagation();
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
