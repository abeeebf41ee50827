import type { PreviewForm } from "../data/schema";
import { Section } from "../ui/section";
import { TopBar } from "../ui/topbar";
import { Result } from "../views/preview";

/** The page of one prediction. */
export function PreviewPage(props: { result: PreviewForm }) {
  const { result } = props;
  return (
    <>
      <TopBar brand="Prediction" />
      <main>
        <header class="report-head" id="top">
          <h1>{result.model}</h1>
        </header>
        <Section id="preview" title="Outputs">
          <Result preview={result} />
        </Section>
      </main>
    </>
  );
}
