import type { ComparisonForm } from "../data/schema";
import { kindName, settingName } from "../data/words";
import { bytes, count } from "../format";
import { ScrollRegion } from "../ui/scroll";
import { TopBar } from "../ui/topbar";
import { DifferenceSection } from "../views/compare/difference";

/** How facts are shown that are names of Apple or whole numbers. */
const FORMATS: Record<string, (fact: string) => string> = {
  kind: kindName,
  parameters: (fact) => count(Number(fact)),
  FLOPs: (fact) => count(Number(fact)),
  "weight bytes": (fact) => bytes(Number(fact)),
  "compute units": settingName,
};

const shown = (name: string, fact: string | undefined): string => (fact === undefined ? "–" : (FORMATS[name]?.(fact) ?? fact));

/** The page of a comparison: the differing facts, then each subject against the first. */
export function ComparePage(props: { result: ComparisonForm }) {
  const { subjects, differences, differing } = props.result;
  return (
    <>
      <TopBar
        brand="Comparison"
        parts={differences.map(({ other }) => ({ id: `difference-${other}`, title: subjects[other]?.label ?? "" }))}
      />
      <main class="compare">
        <header class="report-head" id="top">
          <h1>{subjects.map((subject) => subject.label).join(" · ")}</h1>
          {differing.length === 0 && <p class="lead">The same model under the same conditions.</p>}
          {differing.length > 0 && (
            <ScrollRegion label="What differs">
              <table class="plain">
                <thead>
                  <tr>
                    <th scope="col">What differs</th>
                    {subjects.map((subject) => (
                      <th scope="col" key={subject.label}>
                        {subject.label}
                      </th>
                    ))}
                  </tr>
                </thead>
                <tbody>
                  {differing.map((name) => (
                    <tr key={name}>
                      <th scope="row">{name}</th>
                      {subjects.map((subject) => (
                        <td key={subject.label}>{shown(name, subject.facts[name])}</td>
                      ))}
                    </tr>
                  ))}
                </tbody>
              </table>
            </ScrollRegion>
          )}
        </header>
        {differences.map((difference) => (
          <DifferenceSection key={difference.other} comparison={props.result} difference={difference} />
        ))}
      </main>
    </>
  );
}
