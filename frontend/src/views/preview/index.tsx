import { useContext, useRef, useState } from "preact/hooks";
import { type Given, inputFor, inputKind, predictionTime, previewRequest, RESIZES, takesSound } from "../../data/preview";
import type { FeatureSummary, Preview } from "../../data/schema";
import { duration, plural } from "../../format";
import type { PredictionRequest, Refusal } from "../../opening/answers";
import { useReport } from "../../report";
import { OriginTag } from "../../ui/origin";
import { Problem } from "../../ui/problem";
import { Section } from "../../ui/section";
import { Camera } from "./camera";
import { Outputs } from "./outputs";
import { Predicting } from "./predicting";

/** Inputs with synthetic values that are named; of more, the number. */
const NAMED = 4;
const RATES = ["8000", "16000", "22050", "32000", "44100", "48000"];

/** A photo, a sound, numbers or a text that is given to the model, and what it makes of it. */
export function InputPreview() {
  const { model } = useReport();
  const inputs = model.functions[0]?.inputs ?? [];
  const [given, setGiven] = useState<ReadonlyMap<string, Given>>(new Map());
  const [resize, setResize] = useState<string>(RESIZES[0][0]);
  const [rate, setRate] = useState("16000");
  const [isOver, setOver] = useState(false);
  const { preview, problem, isRunning, run, refuse } = usePreview();

  const start = (values: ReadonlyMap<string, Given>, how = resize, hertz = rate) => {
    setGiven(values);
    void run(previewRequest(values, inputs, how, hertz));
  };
  const give = (name: string, value: Given | null) => {
    const values = new Map(given);
    if (value) values.set(name, value);
    else values.delete(name);
    if (value && "file" in value) start(values);
    else setGiven(values);
  };
  const drop = (files: Iterable<File>) => {
    const dropped = [...files];
    const values = new Map(given);
    for (const file of dropped) {
      const input = inputFor(
        inputs.filter((one) => dropped.length < 2 || !values.has(one.name)),
        file.name,
      );
      if (!input) return refuse({ error: `No input of this model takes ${file.name}`, hint: `it takes ${wanted(inputs)}` });
      values.set(input.name, { file });
    }
    if (dropped.length > 0) start(values);
  };
  const hasPicture = inputs.some((input) => inputKind(input) === "picture");
  return (
    <Section id="preview" title="Preview" note="a prediction on the machine that runs this server">
      <form
        class="preview-form"
        onSubmit={(event) => {
          event.preventDefault();
          start(given);
        }}
      >
        <label
          class={`drop ${isOver ? "drop-over" : ""}`}
          onDragOver={(event) => {
            event.preventDefault();
            setOver(true);
          }}
          onDragLeave={() => setOver(false)}
          onDrop={(event) => {
            event.preventDefault();
            setOver(false);
            drop(event.dataTransfer?.files ?? []);
          }}
        >
          <input
            type="file"
            multiple
            onChange={(event) => {
              drop(event.currentTarget.files ?? []);
              event.currentTarget.value = "";
            }}
          />
          <span>
            <b>Choose a file</b>, or drop one here: {wanted(inputs)}
          </span>
        </label>
        {hasPicture && <Camera isRunning={isRunning} hasFailed={problem !== null} onFrame={(frame) => drop([frame])} onRefuse={refuse} />}
        <ul class="preview-inputs">
          {inputs.map((input) => (
            <InputRow key={input.name} input={input} given={given.get(input.name)} onGive={(value) => give(input.name, value)} />
          ))}
        </ul>
        <div class="preview-actions">
          {hasPicture && (
            <label class="menu">
              <span>Other sizes</span>
              <select
                value={resize}
                onChange={(event) => {
                  setResize(event.currentTarget.value);
                  if (given.size) start(given, event.currentTarget.value);
                }}
              >
                {RESIZES.map(([value, text]) => (
                  <option key={value} value={value}>
                    {text}
                  </option>
                ))}
              </select>
            </label>
          )}
          {takesSound(inputs) && (
            <label class="menu" title="The rate at which the model takes sounds; no file says it">
              <span>Sample rate</span>
              <select
                value={rate}
                onChange={(event) => {
                  setRate(event.currentTarget.value);
                  if (given.size) start(given, resize, event.currentTarget.value);
                }}
              >
                {RATES.map((value) => (
                  <option key={value} value={value}>
                    {Number(value) / 1000} kHz
                  </option>
                ))}
              </select>
            </label>
          )}
          <button type="submit" class="quiet" disabled={isRunning}>
            {isRunning ? "Running …" : "Run"}
          </button>
        </div>
      </form>
      {problem && <Problem {...problem} />}
      {isRunning && <progress aria-label="The model runs" />}
      <div aria-live="polite" aria-busy={isRunning}>
        {preview && <Result preview={preview} />}
      </div>
    </Section>
  );
}

/** What files the model takes, in words. */
function wanted(inputs: readonly FeatureSummary[]): string {
  const kinds = new Set(inputs.map(inputKind));
  const words = [
    kinds.has("picture") && "a photo",
    takesSound(inputs) && "a sound (.wav)",
    kinds.has("numbers") && "numbers (.npy, .csv, .json)",
    kinds.has("text") && "a text (.txt)",
    kinds.has("dictionary") && "a dictionary (.json)",
  ].filter(Boolean);
  return words.join(", ");
}

function InputRow(props: { input: FeatureSummary; given: Given | undefined; onGive: (value: Given | null) => void }) {
  const { input, given } = props;
  const kind = inputKind(input);
  const hint = kind === "dictionary" ? '{"word": 1}' : kind === "text" ? "a text" : "numbers: 0.5 1 2";
  return (
    <li class="preview-input">
      <span class="preview-name">
        <b>{input.name}</b> <span class="faint">{input.type}</span>
      </span>
      {given && "file" in given ? (
        <button type="button" class="tag" aria-label={`Remove ${given.file.name}`} onClick={() => props.onGive(null)}>
          {given.file.name} ×
        </button>
      ) : kind === "picture" ? (
        <span class="dim">{input.is_optional ? "optional" : "synthetic pixels, if no picture is given"}</span>
      ) : (
        <input
          type="text"
          aria-label={`Value of ${input.name}`}
          placeholder={`${hint}; ${input.is_optional ? "optional" : "else synthetic"}`}
          value={given?.text ?? ""}
          onInput={(event) => props.onGive(event.currentTarget.value ? { text: event.currentTarget.value } : null)}
        />
      )}
    </li>
  );
}

/** What a model made of its inputs. */
export function Result(props: { preview: Preview }) {
  const { preview } = props;
  const time = predictionTime(preview);
  const synthetic = preview.inputs.filter((input) => input.source === "synthetic");
  const notes = [
    ...preview.inputs.filter((input) => input.note).map((input) => `${input.name}: ${input.source}, ${input.note}`),
    synthetic.length > 0 &&
      `synthetic values: ${synthetic.length > NAMED ? plural(synthetic.length, "input") : synthetic.map((input) => input.name).join(", ")}`,
  ].filter(Boolean);
  return (
    <div class="preview-result">
      <p class="preview-time">
        {time !== null && (
          <>
            <strong>{duration(time)}</strong> a prediction{" "}
            <span class="dim">
              ({preview.predict_s.length > 1 ? `median of ${preview.predict_s.length}` : "one"}; the first one took{" "}
              {duration(preview.load_s)}, compilation and load included)
            </span>{" "}
            <OriginTag origin="measured" on={preview.measured_by} />
          </>
        )}
      </p>
      {notes.length > 0 && <p class="dim">{notes.join("; ")}</p>}
      <Outputs preview={preview} />
      {!preview.outputs.length && <p class="dim">{plural(0, "output")}</p>}
    </div>
  );
}

/** Gives inputs to the model; the last answer stays until the next one. */
function usePreview() {
  const predict = useContext(Predicting);
  const [preview, setPreview] = useState<Preview | null>(null);
  const [problem, setProblem] = useState<Refusal | null>(null);
  const [isRunning, setRunning] = useState(false);
  // What is given while a prediction runs is sent after it: only the last of it counts.
  const following = useRef<PredictionRequest | null>(null);
  const isSending = useRef(false);
  const run = async (request: PredictionRequest) => {
    following.current = request;
    if (isSending.current) return;
    isSending.current = true;
    setRunning(true);
    while (following.current) {
      const next = following.current;
      following.current = null;
      await send(next);
    }
    isSending.current = false;
    setRunning(false);
  };
  const send = async (request: PredictionRequest) => {
    setProblem(null);
    const answer = await predict?.(request);
    if (!answer) return;
    const isRefused = "error" in answer;
    setPreview(isRefused ? null : answer);
    if (isRefused) setProblem(answer);
  };
  return { preview, problem, isRunning, run, refuse: setProblem };
}
