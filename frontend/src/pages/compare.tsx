import { subjectTitle } from "../data/comparison";
import { profileNames } from "../data/overview";
import type { ComparisonForm, Subject } from "../data/schema";
import { kindName, settingName } from "../data/words";
import { bytes, count, fileName, plural } from "../format";
import { ScrollRegion } from "../ui/scroll";
import { Section } from "../ui/section";
import { Conclusions } from "../ui/strip";
import { TopBar } from "../ui/topbar";
import { DifferenceSection } from "../views/compare/difference";
import { DifferenceOverview } from "../views/compare/overview";
import { ComparedSettings } from "../views/compare/settings";
import { Overview } from "../views/overview";
import { Opened } from "./profiles";

/** How facts are shown that are names of Apple or whole numbers. */
const FORMATS: Record<string, (fact: string) => string> = {
  kind: kindName,
  parameters: (fact) => count(Number(fact)),
  FLOPs: (fact) => count(Number(fact)),
  "weight bytes": (fact) => bytes(Number(fact)),
  "compute units": settingName,
};

const shown = (name: string, fact: string | undefined): string => (fact === undefined ? "–" : (FORMATS[name]?.(fact) ?? fact));

/** The page of a comparison: the differing facts, all profiles, then each subject against the first. */
export function ComparePage(props: { result: ComparisonForm }) {
  const { subjects, differences, differing, profiles } = props.result;
  const hasOverview = differences.length > 1;
  const isListed = subjects.length > ABREAST;
  const parts = differences.map(({ other }) => ({ id: `difference-${other}`, title: subjectTitle(subjects[other]?.label ?? "") }));
  return (
    <Opened profiles={profiles}>
      <TopBar
        brand="Comparison"
        parts={hasOverview ? [{ id: "differences", title: "Overview" }, ...(parts.length > ABREAST ? [] : parts)] : parts}
      />
      <main class="compare">
        <header class="report-head" id="top">
          <h1>{titleOf(subjects)}</h1>
          <Conclusions of={props.result} />
          {differing.length === 0 && differences.length > 0 && <p class="lead">The same model under the same conditions.</p>}
          {differing.length > 0 && !isListed && (
            <ScrollRegion label="What differs">
              <table class="plain">
                <Abreast result={props.result} />
              </table>
            </ScrollRegion>
          )}
        </header>
        {profiles.length === 1 && <ComparedSettings comparison={props.result} />}
        {profiles.length > 0 && <Overview profiles={profiles} names={profileNames(profiles)} />}
        {hasOverview && <DifferenceOverview comparison={props.result} />}
        {differing.length > 0 && isListed && profiles.length !== 1 && (
          <Section id="facts" title="What differs">
            <ScrollRegion label="What differs">
              <table class="plain">
                <Listed result={props.result} />
              </table>
            </ScrollRegion>
          </Section>
        )}
        {differences.map((difference) => (
          <DifferenceSection key={difference.other} comparison={props.result} difference={difference} />
        ))}
      </main>
    </Opened>
  );
}

/** More subjects have a row each instead of a column. */
const ABREAST = 4;

/** All subjects, or the one model and their number. */
function titleOf(subjects: readonly Subject[]): string {
  if (subjects.length === 0) return "Models side by side";
  const models = new Set(subjects.map((subject) => subject.path));
  const one = models.size === 1 ? fileName(subjects[0]?.path ?? "") : "";
  const labels = subjects.map((subject) => subjectTitle(subject.label));
  if (subjects.length <= ABREAST) return `${one && !labels.includes(one) ? `${one}: ` : ""}${labels.join(" · ")}`;
  return one ? `${one} on ${subjects.length} devices and settings` : `${labels[0]} and ${plural(subjects.length - 1, "other")}`;
}

/** What differs, a column for each subject. */
function Abreast(props: { result: ComparisonForm }) {
  const { subjects, differing } = props.result;
  return (
    <>
      <thead>
        <tr>
          <th scope="col">What differs</th>
          {subjects.map((subject) => (
            <th scope="col" key={subject.label}>
              {subjectTitle(subject.label)}
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
    </>
  );
}

/** What differs, a row for each subject. */
function Listed(props: { result: ComparisonForm }) {
  const { subjects, differing } = props.result;
  return (
    <>
      <thead>
        <tr>
          <th scope="col">Subject</th>
          {differing.map((name) => (
            <th scope="col" key={name}>
              {name}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {subjects.map((subject) => (
          <tr key={subject.label}>
            <th scope="row">{subjectTitle(subject.label)}</th>
            {differing.map((name) => (
              <td key={name}>{shown(name, subject.facts[name])}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </>
  );
}
