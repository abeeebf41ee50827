import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { OutputView, Preview } from "../../data/schema";
import { share } from "../../format";

/** What the model made of its inputs: one part for each output, over the picture where it belongs there. */
export function Outputs(props: { preview: Preview }) {
  const { picture, outputs } = props.preview;
  const lead = outputs.findIndex((one) => isOver(one, picture));
  const ordered = lead > 0 ? [...outputs.slice(lead, lead + 1), ...outputs.filter((_, index) => index !== lead)] : outputs;
  return (
    <div class="preview-outputs">
      {lead < 0 && picture && (
        <figure class="preview-output">
          <figcaption>
            <b>The picture</b> <span class="faint">as the model got it</span>
          </figcaption>
          <Stage preview={props.preview} />
        </figure>
      )}
      {ordered.map((view) => (
        <Output key={view.name} view={view} preview={props.preview} />
      ))}
    </div>
  );
}

/** Whether an output is drawn over the picture. */
const isOver = (view: OutputView, picture: string): boolean =>
  picture !== "" && (view.kind === "boxes" || view.kind === "points" || view.kind === "mask" || view.kind === "map");

function Output(props: { view: OutputView; preview: Preview }) {
  const { view, preview } = props;
  return (
    <figure class="preview-output">
      <figcaption>
        <b>{view.title}</b>{" "}
        <span class="faint">
          {view.name} · {view.type}
        </span>
      </figcaption>
      {isOver(view, preview.picture) ? <Overlay view={view} preview={preview} /> : <Body view={view} />}
      {view.note && <p class="preview-note">{view.note}</p>}
    </figure>
  );
}

/** The picture with something over it. */
function Stage(props: { preview: Preview; children?: ComponentChildren }) {
  const [width, height] = props.preview.picture_size;
  return (
    <div class="stage" style={{ aspectRatio: `${width} / ${height}` }}>
      <img src={props.preview.picture} alt="The input, as the model got it" />
      {props.children}
    </div>
  );
}

function Overlay(props: { view: OutputView; preview: Preview }) {
  const { view, preview } = props;
  const [opacity, setOpacity] = useState(view.kind === "map" ? 0.85 : 0.6);
  return (
    <>
      <Stage preview={preview}>
        {view.picture && <img class="stage-over" src={view.picture} alt={`${view.title} of the input`} style={{ opacity }} />}
        {view.kind === "boxes" && <Boxes view={view} />}
        {view.kind === "points" && <Points view={view} />}
      </Stage>
      {view.picture && (
        <label class="preview-opacity">
          <span>Over the picture</span>
          <input
            type="range"
            min="0"
            max="1"
            step="0.05"
            value={opacity}
            aria-label={`How much of ${view.title} covers the picture`}
            onInput={(event) => setOpacity(Number(event.currentTarget.value))}
          />
        </label>
      )}
      <Legend view={view} />
      <Range view={view} />
    </>
  );
}

const percent = (part: number): string => `${(part * 100).toFixed(2)}%`;

function Boxes(props: { view: OutputView }) {
  return (
    <>
      {props.view.boxes.map((box) => (
        <span
          key={`${box.label} ${box.left} ${box.top} ${box.width}`}
          class="stage-box"
          style={{ left: percent(box.left), top: percent(box.top), width: percent(box.width), height: percent(box.height) }}
        >
          <span>
            {box.label} {share(box.score)}
          </span>
        </span>
      ))}
    </>
  );
}

function Points(props: { view: OutputView }) {
  const { points, lines } = props.view;
  return (
    <>
      <svg class="stage-lines" viewBox="0 0 100 100" preserveAspectRatio="none" aria-hidden="true">
        {lines.map(([from, to]) => {
          const [a, b] = [points[from], points[to]];
          return a && b && <line key={`${from}-${to}`} x1={a.x * 100} y1={a.y * 100} x2={b.x * 100} y2={b.y * 100} />;
        })}
      </svg>
      {points.map((point) => (
        <span
          key={point.label}
          class="stage-point"
          title={`${point.label}: ${point.score.toPrecision(3)}`}
          style={{ left: percent(point.x), top: percent(point.y) }}
        >
          {lines.length ? "" : point.label}
        </span>
      ))}
    </>
  );
}

function Body(props: { view: OutputView }) {
  const { view } = props;
  switch (view.kind) {
    case "classes":
      return <Classes view={view} />;
    case "curve":
      return (
        <>
          <Curve view={view} />
          <Range view={view} />
        </>
      );
    case "text":
      return <p class="preview-text">{view.text}</p>;
    case "values":
      return (
        <>
          {view.text && <p class="preview-text">{view.text}</p>}
          <Range view={view} />
        </>
      );
    default:
      return (
        <>
          {view.picture && <img class="preview-picture" src={view.picture} alt={`${view.title}: ${view.name}`} />}
          <Legend view={view} />
          <Range view={view} />
        </>
      );
  }
}

function Classes(props: { view: OutputView }) {
  const { classes, classes_in_all: all, low, high } = props.view;
  const areShares = (low ?? 0) >= -1e-6 && (high ?? 2) <= 1 + 1e-6;
  return (
    <>
      <ol class="preview-classes">
        {classes.map((one) => (
          <li key={one.label}>
            <span class="preview-class">{one.label}</span>
            <span class="preview-score">{areShares ? share(one.score) : one.score.toPrecision(4)}</span>
            {areShares && (
              <span class="preview-bar">
                <span style={{ width: percent(Math.min(1, Math.max(0, one.score))) }} />
              </span>
            )}
          </li>
        ))}
      </ol>
      {all > classes.length && (
        <p class="preview-note">
          the best {classes.length} of {all} classes
        </p>
      )}
    </>
  );
}

const [WIDTH, HEIGHT] = [400, 110];

function Curve(props: { view: OutputView }) {
  const { curve, low, high, name } = props.view;
  const [least, most] = [low ?? 0, high ?? 1];
  const y = (value: number) => HEIGHT - 4 - ((value - least) / (most - least || 1)) * (HEIGHT - 8);
  const line = curve
    .map((value, index) => `${index ? "L" : "M"}${((index / (curve.length - 1)) * WIDTH).toFixed(1)},${y(value).toFixed(1)}`)
    .join("");
  return (
    <svg class="preview-curve" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={`Numbers of ${name}`}>
      {least < 0 && most > 0 && <line class="preview-zero" x1="0" x2={WIDTH} y1={y(0)} y2={y(0)} />}
      <path d={line} />
    </svg>
  );
}

function Legend(props: { view: OutputView }) {
  if (!props.view.legend.length) return null;
  return (
    <ul class="preview-legend">
      {props.view.legend.map((row) => (
        <li key={row.label}>
          <span class="preview-swatch" style={{ background: row.color }} /> {row.label} <span class="faint">{share(row.share)}</span>
        </li>
      ))}
    </ul>
  );
}

function Range(props: { view: OutputView }) {
  const { low, high } = props.view;
  if (low === null || high === null) return null;
  return (
    <p class="preview-note">
      from {low.toPrecision(4)} to {high.toPrecision(4)}
    </p>
  );
}
