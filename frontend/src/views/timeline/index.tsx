import { useMemo, useState } from "preact/hooks";
import { firstsOf } from "../../data/folding";
import { estimatedTimeline, type Timeline as Lanes, measuredTimeline, merged, moduleSpans } from "../../data/lanes";
import type { Origin } from "../../data/schema";
import { plural } from "../../format";
import { useReport } from "../../report";
import { Choice } from "../../ui/choice";
import { usePrograms } from "../../ui/modules";
import { OriginTag } from "../../ui/origin";
import { Section } from "../../ui/section";
import { Drawing } from "./drawing";

const BLOCKS = [
  ["once", "equal blocks once"],
  ["each", "each block"],
] as const;

/** One prediction over time: modules, and a lane for each compute unit. */
export function Timeline() {
  const { measuredBy, rows, table, groups, kernels, target, estimate, times } = useReport();
  const measured = useMemo(() => (groups.length ? measuredTimeline(table, groups) : null), [table, groups]);
  const estimated = useMemo(() => (estimate ? estimatedTimeline(table, kernels, estimate) : null), [table, kernels, estimate]);
  const known = [estimated, measured].filter((one): one is Lanes => one !== null && one.seconds > 0);
  const [wanted, choose] = useState<Origin | null>(null);
  const whole = known.find((one) => one.origin === (wanted ?? times?.origin)) ?? known[0];
  const { functions } = usePrograms();
  const parts = useMemo(() => [...functions.values()].flatMap((one) => one.parts), [functions]);
  const firsts = useMemo(() => firstsOf(parts), [parts]);
  const [blocks, chooseBlocks] = useState<"each" | "once">("once");
  const lanes = useMemo(() => {
    if (!whole || blocks === "each") return whole;
    const first = (op: number): number => {
      const found = rows.ops[op] && firsts.get(rows.ops[op]);
      return found ? first(found.op) : op;
    };
    return merged(whole, first);
  }, [whole, blocks, firsts, rows]);
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
          {whole && whole.switches.length > 0 && <span>{plural(whole.switches.length, "change")} of unit</span>}
        </>
      }
      actions={
        <>
          {firsts.size > 0 && <Choice label="Blocks" options={BLOCKS} value={blocks} onChange={chooseBlocks} />}
          <Choice label="Times" options={known.map((one) => [one.origin, one.origin] as const)} value={lanes.origin} onChange={choose} />
        </>
      }
    >
      <Drawing key={`${lanes.origin} ${blocks}`} lanes={lanes} modules={spans} />
      <p class="dim caption">{lanes.omitted}</p>
    </Section>
  );
}
