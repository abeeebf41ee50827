import { useState } from "preact/hooks";
import { chipOf } from "../data/profile";
import { ask, Refused } from "../data/server";
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

/** Milliseconds between looks at the job. */
const LOOK_MS = 500;

/** Asks the server, and shows the report again once it has the device. */
function AddHere(props: { chip: string }) {
  const [problem, setProblem] = useState("");
  const [isRunning, setRunning] = useState(false);
  const add = async () => {
    setRunning(true);
    setProblem("");
    await addDevice(props.chip).catch((error: Error) => setProblem(error.message));
    setRunning(false);
  };
  return (
    <>
      <button type="button" class="quiet" disabled={isRunning} onClick={() => void add()}>
        {isRunning ? "Planning and estimating …" : "Plan and estimate it here"}
      </button>{" "}
      {isRunning && <progress aria-label="Planning and estimating" />}
      {problem && <span role="alert">{problem}</span>}
    </>
  );
}

/** Adds a device to the report and opens it there. */
async function addDevice(chip: string): Promise<void> {
  const query = new URLSearchParams({ devices: chip }).toString();
  let answer = await ask(`${location.pathname}/devices?${query}`, "POST");
  const id = answer.jobs[0]?.id;
  for (;;) {
    const job = answer.jobs.find((one) => one.id === id);
    if (!job) throw new Refused("The job is not known any more.");
    if (job.status === "done") break;
    if (job.status !== "waiting" && job.status !== "running")
      throw new Refused([job.error || "The job was cancelled.", job.hint].filter(Boolean).join(": "));
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    // The list of profiles is two parts up, where the token of the server is.
    answer = await ask("../state", "GET");
  }
  location.replace(`${location.pathname}?${new URLSearchParams({ device: chip }).toString()}`);
}

/** A word that shells take as it is, in quotes where it needs them. */
export const quoted = (word: string): string => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);
