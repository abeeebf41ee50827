import type { VariantsForm } from "../data/schema";
import { kindName } from "../data/words";
import { fileName, plural } from "../format";
import { Conclusions } from "../ui/strip";
import { TopBar } from "../ui/topbar";
import { VariantChart, VariantForecasts, VariantTable } from "../views/variants";

/** The page of a model's variants. */
export function VariantsPage(props: { result: VariantsForm }) {
  const { result } = props;
  return (
    <>
      <TopBar brand="Variants" />
      <main>
        <header class="report-head" id="top">
          <h1 title={result.path}>{fileName(result.path)}</h1>
          <p class="lead">
            {kindName(result.kind)}, {plural(result.variants.length - 1, "variant")}
            {result.coremltools && ` by coremltools ${result.coremltools}`}
          </p>
        </header>
        <Conclusions of={result} />
        <VariantChart report={result} />
        <VariantTable report={result} />
        <VariantForecasts report={result} />
      </main>
    </>
  );
}
