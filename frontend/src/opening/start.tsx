import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { bytes } from "../format";
import { ThemeSwitch } from "../theme";
import { Problem } from "../ui/problem";
import type { Example } from ".";
import type { ListedModel, Refusal } from "./answers";
import { type Dropped, readChosen } from "./dropped";

/** What the start page says of the place where models are worked on. */
export interface StartText {
  lead: string;
  foot: string;
}

/** The start page: what this is, a place to drop a model, and examples. */
export function Start(props: {
  text: StartText;
  problem: Refusal | null;
  models: { dropped: Dropped; listed: readonly ListedModel[] } | null;
  progress: ComponentChildren;
  examples: readonly Example[];
  devices: readonly string[];
  onOpen: (dropped: Dropped, paths?: readonly string[]) => void;
  onExample: (example: Example) => void;
  children?: ComponentChildren;
}) {
  const { problem, models, examples } = props;
  return (
    <main class="start">
      <header class="start-head">
        <b>coremlscope</b>
        {props.progress}
        <ThemeSwitch />
      </header>
      <h1>Where does this Core ML model run, and why not on the Neural Engine?</h1>
      <p class="lead">
        Drop a model. You see which compute unit Core ML would choose for each operation on every Apple chip, the rule that keeps it off the
        others, and an estimate of how long a prediction takes. {props.text.lead}
      </p>
      {props.devices.length > 0 && <Devices devices={props.devices} />}
      <DropZone onOpen={props.onOpen} />
      {problem && <Problem {...problem} />}
      {models && <Choice {...models} onOpen={props.onOpen} />}
      {examples.length > 0 && (
        <>
          <h2>No model at hand?</h2>
          <ul class="examples">
            {examples.map((example) => (
              <li key={example.title}>
                <button type="button" class="example" onClick={() => props.onExample(example)}>
                  <b>{example.title}</b>
                  <span>{example.text}</span>
                </button>
              </li>
            ))}
          </ul>
        </>
      )}
      <p class="faint">{props.text.foot}</p>
      {props.children}
    </main>
  );
}

/** The devices that answers are for; the one that is chosen is shown first. */
function Devices(props: { devices: readonly string[] }) {
  const [chosen, choose] = useState(() => new URLSearchParams(location.search).get("device") ?? props.devices[0]);
  return (
    <p class="start-devices" role="group" aria-label="The device to show first">
      {props.devices.map((one) => (
        <button
          key={one}
          type="button"
          class="tag"
          aria-pressed={one === chosen}
          onClick={() => {
            choose(one);
            history.replaceState(history.state, "", `?${new URLSearchParams({ device: one })}`);
          }}
        >
          {one}
        </button>
      ))}
    </p>
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
      <p>
        .mlpackage, .mlmodel, .mlmodelc, .aimodel, .onnx (as coremltools would convert it), an app, an archive of one, or a saved profile;
        two are compared
      </p>
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
