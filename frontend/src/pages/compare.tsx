import type { ComparisonForm } from "../data/schema";
import { ScrollRegion } from "../ui/scroll";
import { TopBar } from "../ui/topbar";
import { DifferenceSection } from "../views/compare/difference";

/** A whole number with its thousands apart; any other fact as it is. */
const separated = (fact: string): string => (/^\d{5,}$/.test(fact) ? Number(fact).toLocaleString("en") : fact);

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
                        <td key={subject.label}>{separated(subject.facts[name] ?? "–")}</td>
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
