import { useState } from "preact/hooks";
import { chipOf } from "../data/profile";
import type { ServerForm } from "../data/schema";
import { fileName } from "../format";
import { useReport } from "../report";
import { CopyButton } from "../ui/copy";

/** How to get plans and estimates for a chip that the report does not have: from the server, or by a command. */
export function OtherDevice(props: { chip: string; isExtensible: boolean; onClose: () => void }) {
  const { model, targets } = useReport();
  const chips = targets.map(chipOf).filter(Boolean);
  const devices = [...new Set([...chips, props.chip])].join(",");
  const command = `coremlscope profile ${quoted(fileName(model.path))} --device ${devices} -o report.html`;
  return (
    <div class="banner other-device" role="status">
      <p>
        This report has no plan and no estimate for <b>{props.chip}</b>.{" "}
        {props.isExtensible ? <AddHere chip={props.chip} /> : "This command writes one that has:"}
      </p>
      {!props.isExtensible && (
        <p>
          <code>{command}</code>{" "}
          <CopyButton label="Copy the command" text={() => command}>
            Copy
          </CopyButton>
        </p>
      )}
      <button type="button" class="quiet" onClick={props.onClose}>
        Close
      </button>
    </div>
  );
}

/** Asks the server, whose list shows the progress. */
function AddHere(props: { chip: string }) {
  const [problem, setProblem] = useState("");
  const add = async () => {
    try {
      const response = await fetch(`${location.pathname}/devices?${new URLSearchParams({ devices: props.chip }).toString()}`, {
        method: "POST",
      });
      const answer = (await response.json()) as ServerForm | { error: string; hint: string };
      if ("error" in answer) setProblem([answer.error, answer.hint].filter(Boolean).join(": "));
      else location.assign("/");
    } catch {
      setProblem("The server does not respond. It may have been stopped.");
    }
  };
  return (
    <>
      <button type="button" class="quiet" onClick={() => void add()}>
        Add it
      </button>{" "}
      {problem && <span role="alert">{problem}</span>}
    </>
  );
}

/** A word that shells take as it is, in quotes where it needs them. */
export const quoted = (word: string): string => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);
