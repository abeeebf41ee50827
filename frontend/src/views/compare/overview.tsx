import { predictionChanges, subjectTitle } from "../../data/comparison";
import type { Comparison } from "../../data/schema";
import { OriginTag } from "../../ui/origin";
import { Section } from "../../ui/section";
import { ChangeTable } from "./changes";

/** A prediction of every other subject beside that of the base, before the details of each. */
export function DifferenceOverview(props: { comparison: Comparison }) {
  const { subjects } = props.comparison;
  const rows = predictionChanges(props.comparison);
  const origins = [...new Set(rows.map((row) => row.origin))];
  if (rows.length === 0) return null;
  const isOneDevice = rows.every((row) => row.device === "");
  return (
    <Section
      id="differences"
      title={`A prediction against ${subjectTitle(subjects[0]?.label ?? "")}`}
      note={origins.map((origin) => <OriginTag key={origin} origin={origin} />)}
    >
      <ChangeTable
        label="Predictions"
        isText
        heads={["Other", ...(isOneDevice ? [] : ["On"]), ...(origins.length > 1 ? ["Figure"] : [])]}
        rows={rows.map(({ key, label, device, origin, change }) => ({
          key,
          cells: [
            <a key="link" href={`#difference-${key.split("|", 1)[0]}`}>
              {subjectTitle(label)}
            </a>,
            ...(isOneDevice ? [] : [device]),
            ...(origins.length > 1 ? [origin] : []),
          ],
          change,
        }))}
      />
    </Section>
  );
}
