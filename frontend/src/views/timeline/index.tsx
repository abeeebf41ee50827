import { useMemo, useState } from "preact/hooks";
import { fold } from "../../data/folding";
import { estimatedTimeline, type Timeline as Lanes, measuredTimeline, moduleSpans, plannedTimeline } from "../../data/lanes";
import type { Origin } from "../../data/schema";
import { plural } from "../../format";
import { useReport } from "../../report";
import { Choice } from "../../ui/choice";
import { useModules } from "../../ui/modules";
import { OriginTag } from "../../ui/origin";
import { Section } from "../../ui/section";
import { Drawing } from "./drawing";

/** One prediction over time: modules, and a lane for each compute unit. */
export function Timeline() {
  const { measuredBy, rows, table, groups, kernels, target, placement, estimate } = useReport();
  const measured = useMemo(() => (groups.length ? measuredTimeline(table, groups) : null), [table, groups]);
  const planned = useMemo(() => (placement ? plannedTimeline(rows.all, placement) : null), [rows, placement]);
  const estimated = useMemo(() => (estimate ? estimatedTimeline(table, kernels, estimate) : null), [table, kernels, estimate]);
  const known = [planned, estimated, measured].filter((one): one is Lanes => one !== null && one.seconds > 0);
  const [wanted, choose] = useState<Origin>("planned");
  const lanes = known.find((one) => one.origin === wanted) ?? known[0];
  const modules = useModules();
  const parts = useMemo(
    () =>
      rows.functions.flatMap((name) => {
        const top = rows.all.filter((row) => row.kind === "op" && row.depth === 0 && row.function === name);
        return fold(top, undefined, modules);
      }),
    [rows, modules],
  );
  const spans = useMemo(() => (lanes ? moduleSpans(parts, lanes) : []), [parts, lanes]);
  if (!lanes) return null;
  const on = lanes.origin === "measured" ? measuredBy : target?.device;
  return (
    <Section
      id="timeline"
      title="Timeline"
      note={
        <>
          <OriginTag origin={lanes.origin} on={on} />
          {lanes.switches.length > 0 && <span>{plural(lanes.switches.length, "change")} of unit</span>}
        </>
      }
      actions={
        <Choice label="Times" options={known.map((one) => [one.origin, one.origin] as const)} value={lanes.origin} onChange={choose} />
      }
    >
      <Drawing key={lanes.origin} lanes={lanes} modules={spans} />
      <p class="dim caption">{lanes.omitted}</p>
    </Section>
  );
}
