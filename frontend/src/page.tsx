import { ComparePage } from "./pages/compare";
import { PreviewPage } from "./pages/preview";
import { ProfilesPage } from "./pages/profiles";
import { ReportPage } from "./pages/report";
import { ResultsPage } from "./pages/results";
import { ServerPage } from "./pages/server";
import { TracePage } from "./pages/trace";
import { VariantsPage } from "./pages/variants";
import type { Payload } from "./payload";
import { Footer } from "./ui/footer";
import { Keys } from "./ui/keys";
import "./styles/base.css";
import "./styles/parts.css";
import "./styles/answers.css";
import "./styles/layers.css";
import "./styles/detail.css";
import "./styles/summaries.css";
import "./styles/drawings.css";
import "./styles/opening.css";
import "./styles/preview.css";
import "./styles/compare.css";
import "./styles/results.css";
import "./styles/print.css";

/** The page of a result. A new kind of result is one file in `pages/` and one case here. */
function Result(props: { payload: Payload }) {
  const { result } = props.payload;
  switch (result.schema) {
    case "coremlscope.profile/2":
    case "coremlscope.model/2":
      return <ReportPage result={result} chips={props.payload.chips} />;
    case "coremlscope.profiles/2":
      return <ProfilesPage result={result} />;
    case "coremlscope.comparison/2":
      return <ComparePage result={result} />;
    case "coremlscope.preview/1":
      return <PreviewPage result={result} />;
    case "coremlscope.trace/1":
      return <TracePage result={result} />;
    case "coremlscope.variants/1":
      return <VariantsPage result={result} />;
    case "coremlscope.results/1":
      return <ResultsPage result={result} />;
    case "coremlscope.server/3":
      return <ServerPage result={result} />;
  }
}

/** The page of a result, with its footer, whatever its data comes from. */
export function Page(props: { payload: Payload }) {
  return (
    <>
      <Result payload={props.payload} />
      <Keys />
      {props.payload.result.schema !== "coremlscope.server/3" && <Footer payload={props.payload} />}
    </>
  );
}
