import { Fragment } from "preact";
import { useState } from "preact/hooks";
import { isPlanned } from "../data/words";
import { fileArgument } from "../format";
import { useReport } from "../report";
import { CopyButton } from "../ui/copy";
import { Section } from "../ui/section";
import { quoted } from "./other-device";

/** On a page of a model alone: the commands that plan, estimate and measure it. */
export function NextSteps(props: { chips: readonly [id: string, name: string][] }) {
  const { model, profile } = useReport();
  const [chip, setChip] = useState("m1");
  if (profile || !model.kind || model.absent) return null;
  const synthetic = model.missing_weights.length > 0 ? " --random-weights" : "";
  const name = quoted(fileArgument(model.path));
  const planned: readonly (readonly [string, string])[] = [
    ["Which unit runs each operation, and why not a faster one?", `coremlscope plan ${name} --device ${chip} -o plan.html`],
    ["How long does a prediction take there?", `coremlscope estimate ${name} --device ${chip} -o estimate.html`],
    ["All of it, with the time on this machine", `coremlscope profile ${name} --device ${chip}${synthetic} -o report.html`],
  ];
  const measured: typeof planned = [
    ["How long does a prediction take on this machine?", `coremlscope profile ${name}${synthetic} -o report.html`],
  ];
  // Of a pipeline, the stages decide: nothing is planned where none has operations.
  const kinds = model.stages.length > 0 ? model.stages.map((stage) => stage.kind) : [model.kind];
  const steps = kinds.some(isPlanned) ? planned : measured;
  return (
    <Section
      id="next"
      title={steps === planned ? "Plan and estimate" : "Measure"}
      note="this page describes the file; these commands write more"
      actions={
        steps === planned && props.chips.length > 0 ? (
          <label class="menu">
            <span>Device</span>
            <select value={chip} onChange={(event) => setChip(event.currentTarget.value)}>
              {[...props.chips].reverse().map(([id, title]) => (
                <option key={id} value={id}>
                  {title}
                </option>
              ))}
            </select>
          </label>
        ) : undefined
      }
    >
      <ul class="steps">
        {steps.map(([question, command]) => (
          <li key={question}>
            <span>{question}</span>
            <code>
              {command.split(" ").map((word, index) => (
                // biome-ignore lint/suspicious/noArrayIndexKey: the words of a command stay where they are.
                <Fragment key={index}>
                  {index > 0 && " "}
                  <span class="word">{word}</span>
                </Fragment>
              ))}
            </code>
            <CopyButton label={`Copy: ${command}`} text={() => command}>
              Copy
            </CopyButton>
          </li>
        ))}
      </ul>
    </Section>
  );
}
