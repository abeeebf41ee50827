import { aroundOf, likeness, shareOf, termsOf } from "../data/estimate";
import type { Estimate, NearRow } from "../data/schema";
import { SETTING_NAMES, UNIT_NAMES } from "../data/words";
import { duration } from "../format";
import { useReport } from "../report";
import { OriginTag } from "../ui/origin";
import { ScrollRegion } from "../ui/scroll";
import { Section } from "../ui/section";

/** What the estimate of the chosen device and setting is made of, loading, and the published latencies that are nearest. */
export function EstimateTerms() {
  const { estimate } = useReport();
  if (!estimate) return null;
  return (
    <Section
      id="estimate"
      title={`Estimate on ${estimate.device}, ${SETTING_NAMES[estimate.compute_units]}`}
      note={
        <>
          <OriginTag origin="estimated" />
          <span>{sourceOf(estimate)}</span>
        </>
      }
    >
      <Terms estimate={estimate} />
      <dl class="facts">
        {aroundOf(estimate).map(([name, text]) => (
          <div class="fact" key={name}>
            <dt>{name}</dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
      {estimate.near.length > 0 && <Nearest rows={estimate.near} />}
    </Section>
  );
}

function sourceOf(estimate: Estimate): string {
  if (!estimate.own) return "from published latencies alone";
  const factors = Object.entries(estimate.own.factors).map(
    ([unit, factor]) => `${UNIT_NAMES[unit as keyof typeof UNIT_NAMES]} × ${factor.toFixed(2)}`,
  );
  return `calibrated on your ${estimate.own.measurements} measurements: ${factors.join(", ")}`;
}

function Terms(props: { estimate: Estimate }) {
  const terms = termsOf(props.estimate);
  if (terms.length === 0) return null;
  return (
    <ScrollRegion label="What the estimate is made of">
      <table class="plain">
        <thead>
          <tr>
            <th scope="col">Term</th>
            <th scope="col" class="number">
              Time
            </th>
            <th scope="col" class="number">
              Share
            </th>
            <th scope="col">What it is</th>
          </tr>
        </thead>
        <tbody>
          {terms.map((term) => (
            <tr key={term.name}>
              <th scope="row">{term.name}</th>
              <td class="number">{duration(term.seconds)}</td>
              <td class="number">{shareOf(term, props.estimate)}</td>
              <td class="dim meaning">{term.meaning}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </ScrollRegion>
  );
}

function Nearest(props: { rows: readonly NearRow[] }) {
  return (
    <>
      <h3>Published latencies that are nearest</h3>
      <ScrollRegion label="Published latencies that are nearest">
        <table class="plain">
          <thead>
            <tr>
              <th scope="col">Network</th>
              {["By", "Chip", "Weights", "Structure"].map((title) => (
                <th scope="col" key={title}>
                  {title}
                </th>
              ))}
              <th scope="col" class="number">
                Measured
              </th>
              <th scope="col" class="number">
                Ours
              </th>
            </tr>
          </thead>
          <tbody>
            {props.rows.map((row) => (
              <tr key={`${row.network} ${row.publication} ${row.chip} ${row.precision}`}>
                <th scope="row">{row.network}</th>
                <td>{row.publication}</td>
                <td>{row.chip}</td>
                <td>{row.precision}</td>
                <td>{likeness(row)}</td>
                <td class="number">{duration(row.measured_s)}</td>
                <td class="number">{duration(row.estimated_s)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </ScrollRegion>
    </>
  );
}
