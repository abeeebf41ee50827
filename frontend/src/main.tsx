import { render } from "preact";
import { answerLayouts } from "./layout/worker";
import { Page } from "./page";
import { readPayload } from "./payload";

// The same script is the worker's, which has no document; see layout/client.ts.
const root = globalThis.document?.getElementById("app");
if (root) render(<Page payload={readPayload()} />, root);
else if (!globalThis.document) answerLayouts(self as unknown as Worker);
