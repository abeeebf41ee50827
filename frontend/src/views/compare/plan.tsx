import { subjectTitle } from "../../data/comparison";
import type { ComputeUnit, PlanChange, PlannedOpChange } from "../../data/schema";
import { basisText, UNIT_NAMES, UNIT_SHORT } from "../../data/words";
import { plural } from "../../format";
import { OriginTag } from "../../ui/origin";
import { type ChangeRow, ChangeTable } from "./changes";

/** Plans and estimates of two models, devices or settings. Nothing here was measured. */
export function PlanDifference(props: { plan: PlanChange }) {
  const { plan } = props;
  const [before, after] = [subjectTitle(plan.before), subjectTitle(plan.after)];
  const title = before === after ? before : `${before} → ${after}`;
  const origin = plan.latency ? "estimated" : "planned";
  const whole: ChangeRow[] = [{ key: origin, cells: [plan.latency ? "estimated" : "planned cost"], change: plan.latency ?? plan.planned }];
  const types = plan.types
    .filter((row) => row.planned.ratio !== 1)
    .map((row) => ({ key: row.type, cells: [row.type], change: row.planned }));
  return (
    <div class="compare-part">
      <h3>
        On {title} <OriginTag origin={origin} />
      </h3>
      <ChangeTable label={`Whole prediction on ${title}`} heads={["Prediction"]} rows={whole} />
      <p class="dim">{unitWords(plan)}</p>
      {plan.own.some((own) => own) && <p class="dim">{ownWords(plan)}</p>}
      {types.length + plan.ops.length > 0 && (
        <details>
          <summary>Operations whose plan changed: {plan.ops.length}, planned costs</summary>
          {types.length > 0 && <ChangeTable label={`Planned cost by type on ${title}`} heads={["Type"]} rows={types} />}
          {plan.ops.length > 0 && (
            <ChangeTable label={`Operations whose plan changed on ${title}`} heads={["Type", "Name", "Unit"]} rows={plan.ops.map(opRow)} />
          )}
        </details>
      )}
    </div>
  );
}

function opRow(op: PlannedOpChange): ChangeRow {
  const row: ChangeRow = {
    key: `${op.before}|${op.after}`,
    cells: [
      op.type,
      <span key="name" class="mono">
        {op.name}
      </span>,
      unitOf(op),
    ],
    change: op.planned,
  };
  return op.before && op.after ? row : { ...row, remark: op.after ? "added" : "removed" };
}

function unitOf(op: PlannedOpChange): string {
  const name = (unit: ComputeUnit | null) => (unit ? UNIT_SHORT[unit] : "unknown");
  const [before, after] = [name(op.unit_before), name(op.unit_after)];
  if (!op.before) return after;
  return !op.after || before === after ? before : `${before} → ${after}`;
}

/** Which of the user's own measurements the estimates use. */
function ownWords(plan: PlanChange): string {
  const [before, after] = plan.own.map((own) => (own ? basisText({ own, basis: "calibrated" }) : "from published latencies alone"));
  return before === after ? `Estimates: ${before}.` : `Estimates: ${plan.before} ${before}; ${plan.after} ${after}.`;
}

function unitWords(plan: PlanChange): string {
  const arrow = (before: number, after: number) => (before === after ? `${after}` : `${before} → ${after}`);
  const units = Object.entries(plan.units) as [ComputeUnit, [number, number]][];
  const counts = units.map(([unit, [before, after]]) => `${UNIT_NAMES[unit]} ${arrow(before, after)}`).join(", ");
  const added = plan.inserted.some((number) => number) ? `, ${arrow(...plan.inserted)} of them added by Core ML` : "";
  const moved = plan.moved ? `; ${plural(plan.moved, "operation")} moved to another unit` : "";
  return `Operations: ${counts}${added}${moved}. ${changesOfUnit(...plan.switches)}.`;
}

function changesOfUnit(before: number, after: number): string {
  if (before !== after) return `Changes of unit along the order of operations: ${before} → ${after}`;
  return after === 0 ? "No change of unit" : `${plural(after, "change")} of unit along the order of operations`;
}
