import { useMemo, useState } from "preact/hooks";
import type { Group, Origin } from "../data/schema";
import { byType, type TypeTotal } from "../data/totals";
import { bytes, count, duration, share } from "../format";
import { useReport } from "../report";
import { More } from "../ui/more";
import { OriginTag } from "../ui/origin";
import { ScrollRegion } from "../ui/scroll";
import { Section } from "../ui/section";
import { UnitBar, UnitLegend } from "../ui/units";

const LISTED = 12;

/** Time by type of operation, and by group where groups were measured. */
export function Types() {
  const { rows, table, placement, groups, times, measuredBy, target } = useReport();
  const totals = useMemo(() => byType(rows, table, placement, times), [rows, table, placement, times]);
  const kinds = useMemo(() => byLabel(groups), [groups]);
  const origin = times?.origin ?? (placement ? "planned" : null);
  return (
    <Section id="types" title="Types of operations">
      <div class="halves">
        <div>
          <h3>
            By type {origin && <OriginTag origin={origin} on={origin === "measured" ? measuredBy : target?.device} />}{" "}
            <OriginTag origin="declared" />
          </h3>
          <TypeTable totals={totals} origin={origin} whole={times?.whole} />
          {placement && <UnitLegend units={["neural_engine", "gpu", "cpu"]} />}
        </div>
        {kinds.length > 0 && (
          <div>
            <h3>
              By group of operations <OriginTag origin="measured" on={measuredBy} />
            </h3>
            <Kinds kinds={kinds} />
          </div>
        )}
      </div>
    </Section>
  );
}

interface Kind {
  label: string;
  groups: number;
  seconds: number;
  /** Null if the engine's profiler decides it. */
  share: number | null;
}

function byLabel(groups: Group[]): Kind[] {
  const kinds = new Map<string, Kind>();
  for (const group of groups) {
    const kind = kinds.get(group.label) ?? { label: group.label, groups: 0, seconds: 0, share: 0 };
    kinds.set(group.label, kind);
    kind.groups += 1;
    kind.seconds += group.wall_s;
    kind.share = kind.share === null || group.share === null ? null : kind.share + group.share;
  }
  return [...kinds.values()].sort((a, b) => b.seconds - a.seconds);
}

function Kinds(props: { kinds: Kind[] }) {
  const [isOpen, open] = useState(false);
  const most = props.kinds[0]?.seconds ?? 0;
  return (
    <>
      <ScrollRegion label="Measured time by group of operations">
        <table class="plain">
          <thead>
            <tr>
              <th scope="col">Operations</th>
              <th scope="col" class="number">
                Groups
              </th>
              <th scope="col" class="number">
                Time
              </th>
              <th scope="col" class="number">
                Share
              </th>
              <th scope="col" class="wide">
                <span class="hidden">Bar</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {(isOpen ? props.kinds : props.kinds.slice(0, LISTED)).map((kind) => (
              <tr key={kind.label}>
                <th scope="row" class="label mono">
                  {kind.label}
                </th>
                <td class="number">{kind.groups}</td>
                <td class="number">{duration(kind.seconds)}</td>
                <td class="number">{kind.share === null ? "–" : share(kind.share)}</td>
                <td class="wide">
                  <span class="plain-bar" style={{ width: `${most ? (kind.seconds / most) * 100 : 0}%` }} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </ScrollRegion>
      <More listed={LISTED} total={props.kinds.length} isOpen={isOpen} open={open} />
    </>
  );
}

function TypeTable(props: { totals: TypeTotal[]; origin: Origin | null; whole: number | undefined }) {
  const { totals, origin } = props;
  const [isOpen, open] = useState(false);
  const most = Math.max(...totals.map((total) => total.amount), 0);
  const whole = props.whole ?? totals.reduce((sum, total) => sum + total.amount, 0);
  // What a plan charges is shown as a share: it is no time.
  const heads = [...(origin === "planned" || !origin ? [] : ["Time"]), ...(origin ? ["Share"] : [])];
  return (
    <>
      <ScrollRegion label="Operations by type">
        <table class="plain">
          <thead>
            <tr>
              <th scope="col">Type</th>
              {heads.map((head) => (
                <th scope="col" class="number" key={head}>
                  {head}
                </th>
              ))}
              {origin && (
                <th scope="col" class="wide">
                  <span class="hidden">By unit</span>
                </th>
              )}
              {["Operations", "FLOPs", "Weights"].map((head) => (
                <th scope="col" class="number" key={head}>
                  {head}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {(isOpen ? totals : totals.slice(0, LISTED)).map((total) => (
              <tr key={total.type}>
                <th scope="row" class="label mono">
                  {total.type}
                </th>
                {heads.includes("Time") && <td class="number">{total.amount > 0 ? duration(total.amount) : ""}</td>}
                {origin && <td class="number">{total.amount > 0 ? share(total.amount / whole) : ""}</td>}
                {origin && (
                  <td class="wide">
                    <UnitBar
                      most={most}
                      parts={[...total.units].map(([unit, amount]) => ({ unit, amount, text: share(amount / (whole || 1)) }))}
                    />
                  </td>
                )}
                <td class="number">{total.ops}</td>
                <td class="number">
                  {total.isComplete ? "" : "≥ "}
                  {count(total.flops)}
                </td>
                <td class="number">{total.weightBytes ? bytes(total.weightBytes) : ""}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </ScrollRegion>
      <More listed={LISTED} total={totals.length} isOpen={isOpen} open={open} />
    </>
  );
}
