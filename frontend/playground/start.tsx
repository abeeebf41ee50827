import { useState } from "preact/hooks";
import { bytes } from "../src/format";
import { ThemeSwitch } from "../src/theme";
import { type Dropped, readChosen } from "./dropped";
import type { Example } from "./manifest";
import type { ListedModel } from "./python";

/** Pages of the documentation, where the playground names its place. */
const DOCS: readonly [title: string, page: string][] = [
  ["Why a model is not on the Neural Engine", "guides/neural-engine/"],
  ["What the numbers mean", "concepts/numbers/"],
  ["All of the documentation", ""],
];

/** The start page: what this is, a place to drop a model, and examples. */
export function Start(props: {
  problem: { error: string; hint: string } | null;
  models: { dropped: Dropped; listed: readonly ListedModel[] } | null;
  examples: readonly Example[];
  docs: string;
  /** The address of a picture of a report; null until it is loaded. */
  picture: string | null;
  onOpen: (dropped: Dropped, paths?: readonly string[]) => void;
  onExample: (example: Example) => void;
}) {
  const { problem, models } = props;
  return (
    <main class="start">
      <header class="start-head">
        <b>coremlscope</b>
        <ThemeSwitch />
      </header>
      <h1>Where does this Core ML model run, and why not on the Neural Engine?</h1>
      <p class="lead">
        Drop a model. You see which compute unit Core ML would choose for each operation on every Apple chip, the rule that keeps it off the
        others, and an estimate of how long a prediction takes. It is all worked out in this page: the model never leaves your machine, and
        the page can send nothing once it is loaded.
      </p>
      <DropZone onOpen={props.onOpen} />
      {problem && (
        <div class="banner" role="alert">
          <p>{problem.error}</p>
          {problem.hint && <p>→ {problem.hint}</p>}
        </div>
      )}
      {models && <Choice {...models} onOpen={props.onOpen} />}
      <h2>No model at hand?</h2>
      <ul class="examples">
        {props.examples.map((example) => (
          <li key={example.title}>
            <button type="button" class="example" onClick={() => props.onExample(example)}>
              <b>{example.title}</b>
              <span>{example.text}</span>
            </button>
          </li>
        ))}
      </ul>
      <p class="faint">
        Plans follow rules that each name their source, and estimates have an interval; nothing here is measured. To time a model, or to
        compare it with the network that it comes from, install coremlscope.
        {props.docs &&
          DOCS.map(([title, page]) => (
            <span key={page}>
              {" "}
              <a href={`${props.docs}${page}`}>{title}</a>.
            </span>
          ))}
      </p>
      {props.picture && (
        <img class="start-picture" src={props.picture} alt="A report: the latency, the units that operations run on, and what to change" />
      )}
    </main>
  );
}

function DropZone(props: { onOpen: (dropped: Dropped) => void }) {
  const [isOver, setOver] = useState(false);
  const choose = (event: { currentTarget: HTMLInputElement }) => {
    const { files } = event.currentTarget;
    if (files?.length) props.onOpen(readChosen(files));
    event.currentTarget.value = "";
  };
  return (
    <div
      class={`start-drop${isOver ? " drop-over" : ""}`}
      role="group"
      aria-label="Open a model"
      onDragOver={() => setOver(true)}
      onDragLeave={() => setOver(false)}
      onDrop={() => setOver(false)}
    >
      <p class="start-drop-title">Drop a model here</p>
      <p>.mlpackage, .mlmodel, .mlmodelc, .aimodel, an app, an archive of one, or a saved profile; two are compared</p>
      <p class="start-choose">
        <label class="folder">
          Choose files
          <input type="file" multiple onChange={choose} />
        </label>
        <label class="folder">
          Choose a folder
          <input type="file" {...{ webkitdirectory: true }} onChange={choose} />
        </label>
      </p>
    </div>
  );
}

/** The models of an app or an archive. */
function Choice(props: { dropped: Dropped; listed: readonly ListedModel[]; onOpen: (dropped: Dropped, paths: readonly string[]) => void }) {
  return (
    <section aria-labelledby="choice">
      <h2 id="choice">Which of its models?</h2>
      <ul class="choices">
        {props.listed.map((model) => (
          <li key={model.source}>
            <button type="button" class="link" disabled={!!model.problem} onClick={() => props.onOpen(props.dropped, [model.source])}>
              {model.name}
            </button>{" "}
            <span class="faint">{model.problem || [model.kind, bytes(model.size_bytes)].filter(Boolean).join(", ")}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}
