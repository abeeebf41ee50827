import { chipOf } from "../data/profile";
import { fileArgument } from "../format";
import { useReport } from "../report";
import { CopyButton } from "../ui/copy";

/** The command that writes plans and estimates for a chip that the report does not have. */
export function OtherDevice(props: { chip: string; onClose: () => void }) {
  const { model, targets } = useReport();
  const chips = targets.map(chipOf).filter(Boolean);
  const devices = [...new Set([...chips, props.chip])].join(",");
  const command = `coremlscope profile ${quoted(fileArgument(model.path))} --device ${devices} -o report.html`;
  return (
    <div class="banner other-device" role="status">
      <p>
        This report has no plan and no estimate for <b>{props.chip}</b>. This command writes one that has:
      </p>
      <p>
        <code>{command}</code>{" "}
        <CopyButton label="Copy the command" text={() => command}>
          Copy
        </CopyButton>
      </p>
      <button type="button" class="quiet" onClick={props.onClose}>
        Close
      </button>
    </div>
  );
}

/** A word that shells take as it is, in quotes where it needs them. */
export const quoted = (word: string): string => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`);
