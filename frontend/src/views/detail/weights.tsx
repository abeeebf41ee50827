import type { Weight } from "../../data/arguments";
import { bytes, compactType, count } from "../../format";
import { OriginTag } from "../../ui/origin";

const [BAR, HEIGHT] = [12, 34];

/** The weights of an operation: storage, shape, range and histogram. */
export function WeightList(props: { weights: Weight[] }) {
  if (props.weights.length === 0) return null;
  return (
    <>
      <h4>
        Weights <OriginTag origin="declared" />
      </h4>
      {props.weights.map((one, place) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: two parameters may read the same weight.
        <div class="weight" key={place}>
          <p>
            <b>{one.parameter}</b> <span class="mono dim">{compactType(one.type)}</span>
          </p>
          {one.name && <p class="weight-name">{one.name}</p>}
          <p class="dim">
            stored as {one.storage || "text"}, {bytes(one.storedBytes)}
            {one.elements !== null && `, ${count(one.elements)} values`}
          </p>
          {one.least !== null && one.greatest !== null && <Range weight={one} least={one.least} greatest={one.greatest} />}
        </div>
      ))}
    </>
  );
}

function Range(props: { weight: Weight; least: number; greatest: number }) {
  const { weight, least, greatest } = props;
  const isSample = weight.elements !== null && weight.lookedAt < weight.elements;
  const range = least === greatest ? `all ${number(least)}` : `${number(least)} to ${number(greatest)}`;
  return (
    <>
      <Histogram shares={weight.histogram} text={`Histogram of values from ${number(least)} to ${number(greatest)}`} />
      <p class="dim">
        {range}
        {isSample && ` in a sample of ${count(weight.lookedAt)}`}
      </p>
    </>
  );
}

/** Bars of thousandths in intervals of equal width. */
function Histogram(props: { shares: number[]; text: string }) {
  const { shares } = props;
  if (shares.length === 0) return null;
  const most = Math.max(...shares, 1);
  return (
    <svg
      class="weight-histogram"
      role="img"
      aria-label={props.text}
      viewBox={`0 0 ${shares.length * BAR} ${HEIGHT}`}
      preserveAspectRatio="none"
    >
      {shares.map((share, place) => {
        const height = share ? Math.max((share / most) * HEIGHT, 1) : 0;
        // biome-ignore lint/suspicious/noArrayIndexKey: bars have no identity but their place.
        return <rect key={place} x={place * BAR} y={HEIGHT - height} width={BAR - 1} height={height} />;
      })}
    </svg>
  );
}

const number = (value: number): string => (Math.abs(value) >= 1e5 ? value.toExponential(3) : String(value)).replace("-", "−");
