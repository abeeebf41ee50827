import { useMemo, useState } from "preact/hooks";
import { ALL_MODELS, type Recorded, type TraceTotal, totalsOf } from "../../data/trace";
import { bytes, duration, share } from "../../format";
import { ScrollRegion } from "../../ui/scroll";
import { Section } from "../../ui/section";

type Key = keyof TraceTotal;
const COLUMNS: readonly [Key, string][] = [
  ["count", "Count"],
  ["total", "Total"],
  ["share", "Share"],
  ["mean", "Mean"],
  ["min", "Min"],
  ["median", "Median"],
  ["p95", "p95"],
  ["p99", "p99"],
  ["max", "Max"],
  ["bytes", "Bytes"],
];

/** Totals by model and kind of event, for the whole recording or the selected span of time. */
export function Totals(props: {
  recorded: Recorded;
  span: readonly [number, number] | null;
  group: number | null;
  choose: (group: number | null) => void;
}) {
  const { recorded, span, group, choose } = props;
  const [order, sortBy] = useState<Key>("total");
  const rows = useMemo(() => totalsOf(recorded, span, group), [recorded, span, group]);
  const isAll = (row: TraceTotal) => Number(row.group === ALL_MODELS);
  const sorted = [...rows].sort(
    (one, other) =>
      isAll(other) - isAll(one) ||
      (order === "model" || order === "kind"
        ? `${one[order]}`.localeCompare(`${other[order]}`)
        : (other[order] as number) - (one[order] as number)),
  );
  const head = (key: Key, text: string, isNumber: boolean) => (
    <th scope="col" key={key} class={isNumber ? "number" : ""} aria-sort={order === key ? (isNumber ? "descending" : "ascending") : "none"}>
      <button type="button" class="sort" onClick={() => sortBy(key)}>
        {text}
        {order === key ? (isNumber ? " ↓" : " ↑") : ""}
      </button>
    </th>
  );
  return (
    <Section
      id="totals"
      title="Totals"
      note={<span>{span ? `of the selected ${duration(span[1] - span[0])}` : "of the whole recording"}; times of one thread nest</span>}
      actions={
        group !== null && (
          <button type="button" class="quiet" onClick={() => choose(null)}>
            Show all models
          </button>
        )
      }
    >
      <ScrollRegion label="Totals by model and event">
        <table class="plain totals">
          <thead>
            <tr>
              {head("model", "Model", false)}
              {head("kind", "Event", false)}
              {COLUMNS.map(([key, text]) => head(key, text, true))}
            </tr>
          </thead>
          <tbody>
            {sorted.map((row) => (
              <tr key={`${row.group} ${row.kind}`}>
                <th scope="row" class="label mono">
                  {row.group < 0 ? (
                    row.model || "–"
                  ) : (
                    <button type="button" class="link" onClick={() => choose(row.group)}>
                      {row.model}
                    </button>
                  )}
                </th>
                <td>
                  {row.kind}
                  {row.failed > 0 && <span class="warning"> ({row.failed} failed)</span>}
                </td>
                {COLUMNS.map(([key]) => (
                  <td class="number" key={key}>
                    {cell(row, key)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </ScrollRegion>
    </Section>
  );
}

function cell(row: TraceTotal, key: Key): string {
  if (key === "count") return row.count.toLocaleString("en");
  if (key === "bytes") return row.bytes ? bytes(row.bytes) : "";
  if (key === "share") return row.max ? share(row.share) : "";
  return row.max ? duration(row[key] as number) : "";
}
