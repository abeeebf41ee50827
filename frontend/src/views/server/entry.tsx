import { useState } from "preact/hooks";
import type { Entry, ServerForm } from "../../data/schema";
import { ask } from "../../data/server";
import { duration, plural } from "../../format";

/** What a row of the list can do to the list. */
export interface EntryActions {
  chosen: ReadonlySet<string>;
  /** The entries to which devices can be added. */
  extensible: ReadonlySet<string>;
  onChoose: (id: string, isChosen: boolean) => void;
  onSearch: (text: string) => void;
  onState: (state: ServerForm) => void;
  onProblem: (problem: string) => void;
}

/** A saved profile as a row, with its name, its tags and its deletion. */
export function EntryRow(props: { entry: Entry; actions: EntryActions }) {
  const { entry, actions } = props;
  const [editing, setEditing] = useState<"" | "name" | "tags" | "devices" | "delete">("");
  const time = entry.predict_s;
  const hasInterval = time !== null && time.low !== time.high;
  const address = `profiles/${encodeURIComponent(entry.id)}`;
  const send = async (method: string, change?: object, place = address) => {
    actions.onProblem("");
    await ask(place, method, change && JSON.stringify(change)).then(actions.onState, (error: Error) => actions.onProblem(error.message));
    setEditing("");
  };
  return (
    <tr>
      <td>
        <input
          type="checkbox"
          aria-label={`Compare ${entry.id}`}
          checked={actions.chosen.has(entry.id)}
          onChange={(event) => actions.onChoose(entry.id, event.currentTarget.checked)}
        />
      </td>
      <th scope="row">
        <a href={address} title={`${entry.id}.json`}>
          {entry.made_at ? when(entry.made_at) : entry.id}
        </a>
        {entry.profiles > 1 && <span class="faint"> and {plural(entry.profiles - 1, "more profile")}</span>}
        {entry.remarks.map((remark) => (
          <span key={remark} class="badge">
            {remark}
          </span>
        ))}
        <span class="tags">
          {entry.tags.map((tag) => (
            <button key={tag} type="button" class="tag" onClick={() => actions.onSearch(tag)}>
              {tag}
            </button>
          ))}
        </span>
      </th>
      <td class="strong">{time ? duration(time.value) : "–"}</td>
      <td>{hasInterval ? `${duration(time.low)} … ${duration(time.high)}` : "–"}</td>
      <td>{entry.load_s === null ? "–" : duration(entry.load_s)}</td>
      <td>{entry.iterations || "–"}</td>
      <td>{entry.operations || "–"}</td>
      <td class="actions">
        {editing === "" && (
          <>
            <button type="button" class="quiet" onClick={() => setEditing("name")}>
              Rename
            </button>
            <button type="button" class="quiet" onClick={() => setEditing("tags")}>
              Tags
            </button>
            {actions.extensible.has(entry.id) && (
              <a class="quiet" href={`${address}#preview`} title="Give a photo, a sound, numbers or a text to the model">
                Preview
              </a>
            )}
            {actions.extensible.has(entry.id) && (
              <button
                type="button"
                class="quiet"
                title="Plan and estimate the model for other devices; nothing is measured"
                onClick={() => setEditing("devices")}
              >
                Add devices
              </button>
            )}
            <button type="button" class="quiet" onClick={() => setEditing("delete")}>
              Delete
            </button>
          </>
        )}
        {editing === "name" && (
          <Editor label="New name" value={entry.id} onSave={(name) => send("PATCH", { name })} onCancel={() => setEditing("")} />
        )}
        {editing === "tags" && (
          <Editor
            label="Tags, separated by commas"
            value={entry.tags.join(", ")}
            onSave={(text) =>
              send("PATCH", {
                tags: text
                  .split(",")
                  .map((tag) => tag.trim())
                  .filter(Boolean),
              })
            }
            onCancel={() => setEditing("")}
          />
        )}
        {editing === "devices" && (
          <Editor
            label="Devices, separated by commas"
            value=""
            suggestions="known-devices"
            onSave={(names) => send("POST", undefined, `${address}/devices?${new URLSearchParams({ devices: names }).toString()}`)}
            onCancel={() => setEditing("")}
          />
        )}
        {editing === "delete" && (
          <>
            <span class="dim">Delete the file?</span>
            <button type="button" class="quiet" onClick={() => void send("DELETE")}>
              Delete
            </button>
            <button type="button" class="quiet" onClick={() => setEditing("")}>
              Keep
            </button>
          </>
        )}
      </td>
    </tr>
  );
}

function Editor(props: { label: string; value: string; suggestions?: string; onSave: (value: string) => void; onCancel: () => void }) {
  const [value, setValue] = useState(props.value);
  return (
    <form
      class="editor"
      onSubmit={(event) => {
        event.preventDefault();
        props.onSave(value);
      }}
      onKeyDown={(event) => event.key === "Escape" && props.onCancel()}
    >
      <input
        type="text"
        class="editor-field"
        aria-label={props.label}
        list={props.suggestions}
        title={props.label}
        value={value}
        onInput={(event) => setValue(event.currentTarget.value)}
      />
      <button type="submit" class="quiet">
        Save
      </button>
      <button type="button" class="quiet" onClick={props.onCancel}>
        Cancel
      </button>
    </form>
  );
}

const when = (iso: string): string => new Date(iso).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
