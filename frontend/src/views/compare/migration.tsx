import type { OutputAgreement, SharedWork, ValueAgreement } from "../../data/schema";
import { count, plural, share } from "../../format";
import { ScrollRegion } from "../../ui/scroll";

const LISTED = 5;

/** What a Core ML and a Core AI model of one network have in common: their work, and their values where they were compared. */
export function Migration(props: { work: SharedWork | null; agreement: OutputAgreement | null }) {
  const { work, agreement } = props;
  return (
    <>
      {work && <Work work={work} />}
      {agreement && <Agreement agreement={agreement} />}
    </>
  );
}

function Work(props: { work: SharedWork }) {
  const { work } = props;
  const most = Math.max(work.flops, work.other_flops);
  const paired = most ? `${share(work.shared_flops / most)} of the work is paired` : "No work to pair";
  const fixed = work.fixed_flops || work.other_fixed_flops;
  return (
    <div class="compare-part">
      <h3>Core ML and Core AI</h3>
      <p>
        {paired}: {plural(work.pairs, "operation")} with a counterpart, {count(work.flops)} and {count(work.other_flops)} FLOPs in all.
        {fixed > 0 &&
          ` Not counted: ${count(work.fixed_flops)} and ${count(work.other_fixed_flops)} FLOPs on weights alone, which are the same in every call.`}
        {work.groups.length > 0 && ` ${plural(work.groups.length, "group")} cut in another way:`}
      </p>
      {work.groups.length > 0 && (
        <ScrollRegion label="Operations cut in another way">
          <table class="plain">
            <thead>
              <tr>
                <th scope="col">Base</th>
                <th scope="col">Other</th>
                <th scope="col" class="number">
                  Groups
                </th>
                <th scope="col" class="number">
                  Work
                </th>
              </tr>
            </thead>
            <tbody>
              {cuts(work).map((cut) => (
                <tr key={`${cut.types}`}>
                  <th scope="row" class="label mono">
                    {cut.types[0]}
                  </th>
                  <td class="mono">{cut.types[1]}</td>
                  <td class="number">{cut.groups}</td>
                  <td class="number">{share(cut.flops / Math.max(most, 1))}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </ScrollRegion>
      )}
    </div>
  );
}

interface Cut {
  types: [string, string];
  groups: number;
  flops: number;
}

/** Groups by the types of both sides, those with the most work first. */
function cuts(work: SharedWork): Cut[] {
  const found = new Map<string, Cut>();
  for (const { types, flops, other_flops: other } of work.groups) {
    const cut = found.get(`${types}`) ?? { types, groups: 0, flops: 0 };
    found.set(`${types}`, cut);
    cut.groups += 1;
    cut.flops += Math.max(flops, other);
  }
  return [...found.values()].sort((a, b) => b.flops - a.flops).slice(0, LISTED);
}

function Agreement(props: { agreement: OutputAgreement }) {
  const { agreement } = props;
  const { outputs, first } = agreement;
  return (
    <div class="compare-part">
      <h3>Values of the same inputs</h3>
      {agreement.problem ? (
        <p>Values were not compared: {agreement.problem}.</p>
      ) : (
        <>
          {outputs.map((output) => (
            <p key={output.before}>
              Output {output.before}: {differenceText(output)}.
            </p>
          ))}
          <p class="dim">
            {agreement.equal} of {agreement.pairs} values within agree to {agreement.tolerance}; all computed by {agreement.by}, not by Core
            ML or Core AI.
            {first && ` The first that does not: ${first.before} and ${first.after}, ${differenceText(first)}.`}
          </p>
        </>
      )}
    </div>
  );
}

const differenceText = (value: ValueAgreement): string =>
  [
    `relative error ${value.error.toExponential(1)}`,
    `largest difference ${value.largest.toExponential(1)}`,
    value.cosine === null ? "" : `cosine ${value.cosine.toFixed(6)}`,
    value.same_top === null ? "" : value.same_top ? "the same largest element" : "another largest element",
  ]
    .filter(Boolean)
    .join(", ");
