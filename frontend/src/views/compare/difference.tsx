import { namesIn, subjectTitle } from "../../data/comparison";
import type { Comparison, Difference, PairVerdict, RowChange } from "../../data/schema";
import { settingName } from "../../data/words";
import { plural } from "../../format";
import { OriginTag } from "../../ui/origin";
import { Section } from "../../ui/section";
import { type ChangeRow, ChangeTable } from "./changes";
import { Migration } from "./migration";
import { PlanDifference } from "./plan";

/** The differences between the base and one other subject. */
export function DifferenceSection(props: { comparison: Comparison; difference: Difference }) {
  const { comparison, difference } = props;
  const [base, other] = [comparison.subjects[difference.base]?.label, comparison.subjects[difference.other]?.label];
  const phases = Object.entries(difference.phases);
  const best = difference.estimated.filter((pair) => pair.is_best).map(pairRow);
  const telling = difference.rows.filter((row) => isTelling(row)).sort((a, b) => rank(a) - rank(b));
  return (
    <Section
      id={`difference-${difference.other}`}
      title={`${subjectTitle(other ?? "")} against ${subjectTitle(base ?? "")}`}
      note={phases.length > 0 && <OriginTag origin="measured" on={[...new Set(difference.measured)].join(" and ")} />}
    >
      {phases.length > 0 && (
        <>
          <ChangeTable
            label="Phases"
            heads={["Phase"]}
            isInterval95
            rows={phases.map(([name, change]) => ({ key: name, cells: [name], change }))}
          />
          <p class="dim">{method(difference)}</p>
        </>
      )}
      {phases.length > 0 && !difference.incomparable && (
        <>
          <h3>By kind of operation</h3>
          <ChangeTable
            label="By kind of operation"
            heads={["Operations", "Groups"]}
            isInterval95
            rows={difference.kinds.map((kind) => ({
              key: kind.label,
              cells: [kind.label, kind.before === kind.after ? kind.after : `${kind.before} → ${kind.after}`],
              change: kind.time,
            }))}
          />
          <h3>Operations whose time changed</h3>
          {telling.length === 0 && <p>No operation's time changed by more than the noise of its measurement.</p>}
          {telling.length > 0 && (
            <ChangeTable
              label="Operations whose time changed"
              heads={["Operations", "Name"]}
              isInterval95
              rows={telling.map((row, index) => ({
                key: `${index}`,
                cells: [
                  row.label,
                  <span key="name" class="mono">
                    {row.name}
                  </span>,
                ],
                change: row.time,
                ...(row.presence === "both" ? {} : { remark: row.presence }),
              }))}
            />
          )}
        </>
      )}
      {best.length > 0 && (
        <>
          <h3>
            Each with its best setting <OriginTag origin="estimated" />
          </h3>
          <ChangeTable label="Each with its best setting" heads={["Device", "Settings"]} rows={best} />
        </>
      )}
      {difference.plans.map((plan) => (
        <PlanDifference key={`${plan.before}|${plan.after}`} plan={plan} />
      ))}
      <Migration work={difference.work} agreement={difference.agreement} />
      <p class="dim">{operations(difference)}</p>
    </Section>
  );
}

/** The row of a pair of answers. */
function pairRow(pair: PairVerdict): ChangeRow {
  const { device, os, before, after, ratio, verdict } = pair;
  const settings = [before, after].flatMap((side) => (side ? [settingName(side.compute_units)] : []));
  return {
    key: `${device}|${os}`,
    cells: [device, [...new Set(settings)].join(" → ")],
    change: {
      ...{ before: before?.latency.value ?? null, after: after?.latency.value ?? null, origin: "estimated", verdict },
      ...{ ratio: ratio?.value ?? null, low: ratio?.low ?? null, high: ratio?.high ?? null },
    },
  };
}

/** As `telling_rows` of `Difference`. */
function isTelling({ time, presence }: RowChange): boolean {
  return presence !== "both" || ["slower", "faster"].includes(time.verdict) || (time.verdict === "unclear" && time.low === null);
}

/** Clear changes come first, then operations without a counterpart, then unclear ones. */
function rank(row: RowChange): number {
  if (row.presence !== "both") return 1;
  return row.time.verdict === "unclear" ? 2 : 0;
}

function method(difference: Difference): string {
  if (difference.incomparable) return `Not compared: ${difference.incomparable}.`;
  const how = difference.interleaved
    ? "Predictions were interleaved; changes and intervals are those of the ratios of the rounds."
    : "The medians were measured at different times; the intervals do not include drift of the machine between them.";
  return `${how} “Unclear” means that the interval holds both a gain and a loss, or that there are too few samples.`;
}

function operations(difference: Difference): string {
  const parts = [`${plural(difference.matched, "operation")} ${difference.matched === 1 ? "corresponds" : "correspond"}`];
  if (difference.renamed) parts.push(`${difference.renamed} renamed`);
  const names = namesIn(difference);
  for (const presence of ["added", "removed"] as const) {
    const some = difference[presence].flatMap((id) => names.get(id) ?? []).slice(0, 5);
    if (difference[presence].length) parts.push(`${difference[presence].length} ${presence}${some.length ? ` (${some.join(", ")})` : ""}`);
  }
  const types = Object.entries(difference.types).map(([name, [before, after]]) => `${name} ${before} → ${after}`);
  if (types.length) parts.push(`by type: ${types.join(", ")}`);
  if (difference.compiled.length) parts.push(`Apple’s compiler: ${difference.compiled.join(", ")}`);
  return `${parts.join("; ")}.`;
}
