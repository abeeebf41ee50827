import { useMemo, useState } from "preact/hooks";
import { operationsOf, type Recorded } from "../../data/trace";
import { duration, fixed } from "../../format";
import { ScrollRegion } from "../../ui/scroll";
import { Section } from "../../ui/section";

const FEW = 20;

/** Operations by time, for the whole recording or the selected span of time; nothing if none were recorded. */
export function Operations(props: { recorded: Recorded; span: readonly [number, number] | null; group: number | null }) {
  const { recorded, span, group } = props;
  const [all, showAll] = useState(false);
  const rows = useMemo(() => operationsOf(recorded, span, group), [recorded, span, group]);
  if (!rows.length) return null;
  return (
    <Section
      id="operations"
      title="Operations"
      note={
        <span>
          {span ? `of the selected ${duration(span[1] - span[0])}` : "of the whole recording"}, measured by the engine's profiler, which
          makes runs longer
        </span>
      }
      actions={
        rows.length > FEW && (
          <button type="button" class="quiet" aria-expanded={all} onClick={() => showAll(!all)}>
            {all ? `Show the first ${FEW}` : `Show all ${rows.length.toLocaleString("en")}`}
          </button>
        )
      }
    >
      <ScrollRegion label="Operations by time">
        <table class="plain totals">
          <thead>
            <tr>
              <th scope="col">Model</th>
              <th scope="col">Operation</th>
              {["Count", "Total", "Median", "Share"].map((title) => (
                <th scope="col" class="number" key={title}>
                  {title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.slice(0, all ? rows.length : FEW).map((row) => (
              <tr key={`${row.group} ${row.operation}`}>
                <th scope="row" class="label mono">
                  {row.model || "–"}
                </th>
                <td>{row.operation}</td>
                <td class="number">{row.count.toLocaleString("en")}</td>
                <td class="number">{duration(row.total)}</td>
                <td class="number">{row.median ? duration(row.median) : ""}</td>
                <td class="number">{fixed(100 * row.share, 1)} %</td>
              </tr>
            ))}
          </tbody>
        </table>
      </ScrollRegion>
    </Section>
  );
}
