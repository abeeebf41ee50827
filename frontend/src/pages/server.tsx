import type { ServerForm } from "../data/schema";
import { Server } from "../data/server";
import { Opening } from "../opening";

/** The page of `coremlscope serve`, which opens models with the Python of its machine. */
export function ServerPage(props: { result: ServerForm }) {
  return (
    <Opening
      devices={props.result.devices}
      answerer={(say) => new Server(props.result.max_upload_bytes, say)}
      text={{
        lead: "It is all worked out on the machine that runs this page: the model is sent nowhere else, and is removed when the server stops.",
        foot: "Plans follow rules that each name their source, and estimates have an interval. A model that is open can be run here, with the time of each operation, and be given inputs.",
      }}
    />
  );
}
