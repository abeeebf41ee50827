import { useRef, useState } from "preact/hooks";
import { readChosen, readDropped, type Sent } from "../../data/folder";
import type { DeviceName, ServerForm } from "../../data/schema";
import { bytes } from "../../format";
import { Section } from "../../ui/section";

/** Sends a model to the server, which profiles it, or a file that it imports, once devices are chosen. */
export function Upload(props: {
  limit: number;
  suffixes: readonly string[];
  devices: readonly DeviceName[];
  onState: (state: ServerForm) => void;
}) {
  const form = useRef<HTMLFormElement>(null);
  const [held, setHeld] = useState<Sent | null>(null);
  const [sent, setSent] = useState<number | null>(null);
  const [problem, setProblem] = useState("");
  const [isOver, setOver] = useState(false);
  const [devices, setDevices] = useState<readonly string[]>([]);

  const send = ({ name: fileName, content }: Sent) => {
    if (!form.current || sent !== null) return;
    setHeld(null);
    if (content.size > props.limit) {
      setProblem(
        `${fileName} has ${bytes(content.size)}; the limit is ${bytes(props.limit)}. Start the server with a larger --max-upload.`,
      );
      return;
    }
    setProblem("");
    setSent(0);
    const query = new URLSearchParams({ name: fileName });
    for (const [name, value] of new FormData(form.current)) if (typeof value === "string" && value) query.append(name, value);
    query.set("devices", [...devices, ...query.getAll("devices")].join(","));
    const request = new XMLHttpRequest();
    request.open("POST", `jobs?${query.toString()}`);
    request.upload.onprogress = (event) => setSent(event.total ? event.loaded / event.total : 0);
    request.onloadend = () => {
      setSent(null);
      const answer = parse(request.responseText);
      if (request.status === 202 && answer && "jobs" in answer) props.onState(answer);
      else if (answer && "error" in answer) setProblem([answer.error, answer.hint].filter(Boolean).join(": "));
      else setProblem("The server does not respond. It may have been stopped.");
    };
    request.send(content);
  };
  const sendRead = async (reading: Promise<Sent | undefined>) => {
    try {
      const read = await reading;
      if (read) setHeld(read);
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    }
  };

  return (
    <Section id="upload" title="Profile a model, or add a file" note="on the machine that runs this server; one at a time">
      <form
        ref={form}
        class="upload"
        onSubmit={(event) => {
          event.preventDefault();
          if (held) send(held);
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
            if (event.dataTransfer) void sendRead(readDropped(event.dataTransfer));
          }}
        >
          <input
            type="file"
            accept={props.suffixes.join(",")}
            disabled={sent !== null}
            onChange={(event) => {
              const file = event.currentTarget.files?.[0];
              if (file) setHeld({ name: file.name, content: file });
              event.currentTarget.value = "";
            }}
          />
          <span>
            <b>Choose a model or a file</b>, or drop one here: a .mlmodel, .mlpackage or .aimodel, a saved profile, or what Core ML, Xcode
            and other tools wrote (analytics.mil, a .mlperf, JSON, …), up to {bytes(props.limit)}
          </span>
        </label>
        <label class="folder">
          <input
            type="file"
            ref={(input) => input?.setAttribute("webkitdirectory", "")}
            disabled={sent !== null}
            onChange={(event) => {
              void sendRead(readChosen([...(event.currentTarget.files ?? [])]));
              event.currentTarget.value = "";
            }}
          />
          Choose a package that is a folder
        </label>
        <label class="menu">
          <span>Predictions</span>
          <input name="iterations" type="number" min="1" max="100000" defaultValue="50" />
        </label>
        <Devices known={props.devices} chosen={devices} onChange={setDevices} />
        <label class="check">
          <input name="random_weights" type="checkbox" value="1" /> synthetic values for missing weights
        </label>
        {held && (
          <button type="submit" class="start">
            Start with {held.name}
          </button>
        )}
      </form>
      {sent !== null && <progress aria-label="Uploaded" value={sent} />}
      {problem && (
        <p class="banner" role="alert">
          {problem}
        </p>
      )}
    </Section>
  );
}

/** A field for one device after the other, with suggestions. */
function Devices(props: { known: readonly DeviceName[]; chosen: readonly string[]; onChange: (chosen: readonly string[]) => void }) {
  const [text, setText] = useState("");
  const add = (name: string) => {
    if (name.trim()) props.onChange([...new Set([...props.chosen, name.trim()])]);
    setText("");
  };
  return (
    <>
      <label class="menu">
        <span>Devices</span>
        <input
          name="devices"
          type="text"
          list="known-devices"
          placeholder="m1, iphone-15-pro"
          title="To plan and estimate a model for; of a file, the device that it is from"
          spellcheck={false}
          value={text}
          onInput={(event) => {
            const value = event.currentTarget.value;
            // A suggestion was chosen, or the name was ended by a comma.
            if (value.endsWith(",") || props.known.some((device) => device.name === value && value.length > text.length + 1))
              add(value.replace(/,$/, ""));
            else setText(value);
          }}
          onKeyDown={(event) => {
            if (event.key !== "Enter") return;
            event.preventDefault();
            add(text);
          }}
        />
        <datalist id="known-devices">
          {props.known.map((device) => (
            <option key={device.name} value={device.name}>
              {device.chip}
            </option>
          ))}
        </datalist>
      </label>
      {props.chosen.map((name) => (
        <button
          key={name}
          type="button"
          class="tag"
          aria-label={`Remove ${name}`}
          onClick={() => props.onChange(props.chosen.filter((one) => one !== name))}
        >
          {name} ×
        </button>
      ))}
    </>
  );
}

function parse(text: string): ServerForm | { error: string; hint: string } | null {
  try {
    return JSON.parse(text) as ServerForm | { error: string; hint: string };
  } catch {
    return null;
  }
}
