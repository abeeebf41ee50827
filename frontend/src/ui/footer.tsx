import type { Payload } from "../payload";
import { CopyButton } from "./copy";
import { saveFile } from "./save";

/** The version that wrote the page, and buttons to save or copy its data. */
export function Footer(props: { payload: Payload }) {
  const { result, version } = props.payload;
  const text = () => `${JSON.stringify(result, null, 1)}\n`;
  const download = () => saveFile("report.json", new Blob([text()], { type: "application/json" }));
  return (
    <footer>
      <span>Written by coremlscope {version}. This page holds all of its data and loads nothing.</span>
      <span>
        <button type="button" class="quiet" onClick={download}>
          Save the data (JSON)
        </button>
        <CopyButton label="Copy the data as JSON" text={text}>
          Copy the data
        </CopyButton>
      </span>
    </footer>
  );
}
