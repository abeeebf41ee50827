import { plural } from "../format";
import { useReport } from "../report";
import { Section } from "../ui/section";

/** What the author and the tools wrote into the file, and the classes that it names. */
export function Metadata() {
  const { model } = useReport();
  const { labels } = model;
  return (
    <Section id="metadata" title="Metadata" note="declared by the file">
      <dl class="metadata">
        {Object.entries(model.user_defined).map(([key, value]) => (
          <div key={key}>
            <dt>{key}</dt>
            <dd>{value}</dd>
          </div>
        ))}
        {labels && (
          <div>
            <dt>{plural(labels.count, "class")}</dt>
            <dd>
              {labels.first.join(", ")}
              {labels.count > labels.first.length && ", …"}
            </dd>
          </div>
        )}
      </dl>
    </Section>
  );
}
