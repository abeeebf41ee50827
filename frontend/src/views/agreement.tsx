import { useState } from "preact/hooks";
import { agreementName, agreementText, disagreementText } from "../data/agreement";
import type { Agreement, ComputeUnit } from "../data/schema";
import { UNIT_NAMES } from "../data/words";
import { share } from "../format";
import { useReport } from "../report";
import { More } from "../ui/more";
import { OriginTag } from "../ui/origin";
import { ScrollRegion } from "../ui/scroll";
import { Section } from "../ui/section";

const LISTED = 12;

/** How far the plans by rules agree with Core ML's own, and every operation where they do not. */
export function Agreements() {
  const { profile } = useReport();
  if (!profile) return null;
  return (
    <Section
      id="agreement"
      title="Agreement with Core ML"
      note={
        <>
          <OriginTag origin="planned" />
          <span>our plan by rules beside Core ML's own</span>
        </>
      }
    >
      {profile.agreements.map((found) => (
        <AgreementPart key={`${found.theirs} ${found.compute_units}`} found={found} name={agreementName(profile.plans, found)} />
      ))}
    </Section>
  );
}

function AgreementPart(props: { found: Agreement; name: string }) {
  const { found, name } = props;
  const { rows, select } = useReport();
  const [isOpen, open] = useState(false);
  const differing = isOpen ? found.disagreements : found.disagreements.slice(0, LISTED);
  return (
    <>
      <h3 class="findings-title">{name}</h3>
      <p>{agreementText(found)}</p>
      {differing.length > 0 && (
        <ScrollRegion label={`Operations on different units: ${name}`}>
          <table class="plain">
            <thead>
              <tr>
                <th scope="col">Operation</th>
                <th scope="col">Type</th>
                <th scope="col">Core ML</th>
                <th scope="col">Rules</th>
                <th scope="col" class="number">
                  Cost share
                </th>
                <th scope="col">Why</th>
              </tr>
            </thead>
            <tbody>
              {differing.map((one) => (
                <tr key={one.op}>
                  <th scope="row" class="ops">
                    {rows.byId.has(one.op) ? (
                      // biome-ignore lint/a11y/useValidAnchor: the link targets the layer table; the click also selects the row there.
                      <a href="#layers" onClick={() => select(one.op)}>
                        {one.name}
                      </a>
                    ) : (
                      one.name
                    )}
                  </th>
                  <td>{one.type}</td>
                  <td>{unitText(one.theirs)}</td>
                  <td>{unitText(one.ours)}</td>
                  <td class="number">{one.share === null ? "–" : share(one.share)}</td>
                  <td class="dim">{disagreementText(one)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </ScrollRegion>
      )}
      <More listed={LISTED} total={found.disagreements.length} isOpen={isOpen} open={open} />
    </>
  );
}

const unitText = (unit: ComputeUnit | null): string => (unit === null ? "unknown" : UNIT_NAMES[unit]);
