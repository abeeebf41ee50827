import { render } from "preact";
import { useState } from "preact/hooks";
import { layOutWith } from "../src/layout/client";
import { answerLayouts } from "../src/layout/worker";
import { type Example, Opening } from "../src/opening";
import { droppedOf } from "../src/opening/dropped";
import { type Manifest, readManifest } from "./manifest";
import { Python } from "./python";

/** Pages of the documentation, where the playground names its place. */
const DOCS: readonly [title: string, page: string][] = [
  ["Why a model is not on the Neural Engine", "guides/neural-engine/"],
  ["What the numbers mean", "concepts/numbers/"],
  ["All of the documentation", ""],
];

function Playground(props: { manifest: Manifest }) {
  const { manifest } = props;
  const [python] = useState(() => new Python(manifest));
  const [picture, setPicture] = useState<string | null>(null);
  const [begin] = useState(() => async () => {
    const files = await python.load();
    const shot = files.get("report.png");
    if (shot) setPicture(URL.createObjectURL(shot));
    layOutWith((await files.get("playground.js")?.text()) ?? "");
  });
  const readExample = async (example: Example) => {
    const files = await python.load();
    return droppedOf(example.files.map((name) => ({ path: name.replace(/^.*\//, ""), file: files.get(name) ?? new Blob() })));
  };
  return (
    <Opening
      answerer={(say) => python.telling(say)}
      text={{
        lead: "It is all worked out in this page: the model never leaves your machine, and the page can send nothing once it is loaded.",
        foot: "Plans follow rules that each name their source, and estimates have an interval; nothing here is measured. To time a model, or to compare it with the network that it comes from, install coremlscope.",
      }}
      examples={manifest.examples}
      readExample={readExample}
      begin={begin}
    >
      {manifest.docs && (
        <p class="faint">
          {DOCS.map(([title, page]) => (
            <span key={page}>
              <a href={`${manifest.docs}${page}`}>{title}</a>.{" "}
            </span>
          ))}
        </p>
      )}
      {picture && (
        <img class="start-picture" src={picture} alt="A report: the latency, the units that operations run on, and what to change" />
      )}
    </Opening>
  );
}

// The same script is the worker's that lays out graphs, which has no document.
const root = globalThis.document?.getElementById("app");
if (root) render(<Playground manifest={readManifest()} />, root);
else if (!globalThis.document) answerLayouts(self as unknown as Worker);
