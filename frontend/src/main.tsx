import { render } from "preact";
import { answerLayouts } from "./layout/worker";
import { CheckPage } from "./pages/check";
import { ComparePage } from "./pages/compare";
import { ProfilesPage } from "./pages/profiles";
import { ReportPage } from "./pages/report";
import { ResultsPage } from "./pages/results";
import { ServerPage } from "./pages/server";
import { TracePage } from "./pages/trace";
import { VariantsPage } from "./pages/variants";
import { type Payload, readPayload } from "./payload";
import { Footer } from "./ui/footer";
import "./styles/base.css";
import "./styles/parts.css";
import "./styles/answers.css";
import "./styles/layers.css";
import "./styles/detail.css";
import "./styles/summaries.css";
import "./styles/drawings.css";
import "./styles/server.css";
import "./styles/preview.css";
import "./styles/compare.css";
import "./styles/results.css";
import "./styles/print.css";

/** The page of a result. A new kind of result is one file in `pages/` and one case here. */
function Page(props: { payload: Payload }) {
  const { result } = props.payload;
  switch (result.schema) {
    case "coremlscope.profile/2":
    case "coremlscope.model/2":
      return <ReportPage result={result} chips={props.payload.chips} isExtensible={props.payload.connects} />;
    case "coremlscope.profiles/2":
      return <ProfilesPage result={result} />;
    case "coremlscope.comparison/2":
      return <ComparePage result={result} />;
    case "coremlscope.trace/1":
      return <TracePage result={result} />;
    case "coremlscope.variants/1":
      return <VariantsPage result={result} />;
    case "coremlscope.check/1":
      return <CheckPage result={result} />;
    case "coremlscope.results/1":
      return <ResultsPage result={result} />;
    case "coremlscope.server/2":
      return <ServerPage result={result} />;
  }
}

function show(root: HTMLElement): void {
  const payload = readPayload();
  render(
    <>
      <Page payload={payload} />
      <Footer payload={payload} />
    </>,
    root,
  );
}

// The same script is the worker's, which has no document; see layout/client.ts.
const root = globalThis.document?.getElementById("app");
if (root) show(root);
else if (!globalThis.document) answerLayouts(self as unknown as Worker);
