import { useMemo } from "preact/hooks";
import { timeShares } from "../data/answers";
import { Placement } from "../data/placement";
import { answerOf, switches, type Target, targetName } from "../data/profile";
import { buildRows } from "../data/rows";
import type { ComputeUnits, Estimate, Plan } from "../data/schema";
import { plannedColumns, unitShares } from "../data/totals";
import { BOUND_WORDS, basisText, SETTING_NAMES } from "../data/words";
import { duration, plural } from "../format";
import { useReport } from "../report";
import { OriginTag } from "../ui/origin";
import { ScrollRegion } from "../ui/scroll";
import { Section } from "../ui/section";
import { UnitBar, UnitLegend } from "../ui/units";
import { HeatGrid } from "./heat-grid";

/** The compute-unit settings side by side, for every planned or estimated device. */
export function Settings() {
  const { profile, targets, target, setting, chooseTarget } = useReport();
  const answered = targets.filter((one) => profile && one.settings.some((name) => answerOf(profile, one, name)?.latency));
  const plans = targets.map((one) => one.plan).filter((plan) => plan !== null);
  const hasEstimates = targets.some((one) => one.estimates.size > 0);
  const leftOut = targets.flatMap((one) => [...one.estimates.values()].flatMap((estimate) => estimate.left_out));
  return (
    <Section
      id="settings"
      title="Compute units"
      note={
        <>
          {plans.length > 0 && <OriginTag origin="planned" />}
          {hasEstimates && <OriginTag origin="estimated" />}
          <span>nothing here was measured</span>
        </>
      }
    >
      {profile && answered.length > 0 && (
        <HeatGrid
          profile={profile}
          targets={answered}
          isChosen={(one, name) => one === target && name === setting}
          onChoose={chooseTarget}
        />
      )}
      <ScrollRegion label="Compute-unit settings side by side">
        <table class="plain settings">
          <thead>
            <tr>
              <th scope="col">Setting</th>
              {plans.length > 0 && <PlanHeads />}
              {hasEstimates && <EstimateHeads />}
              <th scope="col">
                <span class="hidden">Choose</span>
              </th>
            </tr>
          </thead>
          {targets
            .filter((one) => one === target || !answered.includes(one))
            .map((one) => (
              <TargetRows key={one.key} target={one} hasPlans={plans.length > 0} hasEstimates={hasEstimates} />
            ))}
        </table>
      </ScrollRegion>
      <UnitLegend units={["neural_engine", "gpu", "cpu"]} />
      {leftOut.length > 0 && (
        <p class="dim caption">Estimates do not include {[...new Set(leftOut)].join(", ")}: nothing is known of their latency.</p>
      )}
    </Section>
  );
}

function PlanHeads() {
  return (
    <>
      <th scope="col" title="planned: how the operations divide among units">
        Operations by unit
      </th>
      <th scope="col" class="number" title="planned: how often execution changes the unit">
        Switches
      </th>
    </>
  );
}

function EstimateHeads() {
  return (
    <>
      <th scope="col" title="estimated: how long a prediction takes; the line is the 80 % interval">
        Estimated prediction
      </th>
      <th scope="col" title="estimated: how the time divides among units">
        Time by unit
      </th>
      <th scope="col">Waits for</th>
    </>
  );
}

function TargetRows(props: { target: Target; hasPlans: boolean; hasEstimates: boolean }) {
  const { target } = props;
  const report = useReport();
  const { plan, estimates } = target;
  const columns = useMemo(() => plannedColumns(buildRows(report.table, null, plan)), [report.table, plan]);
  const slowest = Math.max(...[...estimates.values()].map((one) => one.latency.high));
  const width = 2 + (props.hasPlans ? 2 : 0) + (props.hasEstimates ? 3 : 0);
  return (
    <tbody>
      <tr class="group-head">
        <th scope="rowgroup" colSpan={width}>
          {targetName(target)}
        </th>
      </tr>
      {target.settings.map((name) => {
        const isShown = target === report.target && name === report.setting;
        return (
          <tr key={name} class={isShown ? "shown" : ""}>
            <th scope="row">{SETTING_NAMES[name]}</th>
            {props.hasPlans && <PlanCells plan={plan} name={name} columns={columns} />}
            {props.hasEstimates && <EstimateCells estimate={estimates.get(name)} slowest={slowest} />}
            <td>
              {isShown ? (
                <span class="faint">shown</span>
              ) : (
                <button
                  type="button"
                  class="quiet"
                  aria-label={`Show ${targetName(target)}, ${SETTING_NAMES[name]}, everywhere on the page`}
                  onClick={() => report.chooseTarget(target, name)}
                >
                  Show
                </button>
              )}
            </td>
          </tr>
        );
      })}
    </tbody>
  );
}

function PlanCells(props: { plan: Plan | null; name: ComputeUnits; columns: readonly number[] }) {
  const { plan, name } = props;
  const setting = plan?.settings.find((one) => one.compute_units === name);
  if (!plan || !setting) return <td colSpan={2}>not planned</td>;
  const shares = unitShares(new Placement(plan, name), props.columns);
  return (
    <>
      <td class="wide">
        <UnitBar parts={shares.map((part) => ({ unit: part.unit, amount: part.ops, text: plural(part.ops, "operation") }))} />
      </td>
      <td class="number">{switches(setting)}</td>
    </>
  );
}

function EstimateCells(props: { estimate: Estimate | undefined; slowest: number }) {
  const { estimate } = props;
  if (!estimate) return <td colSpan={3}>not estimated</td>;
  const { value, low, high } = estimate.latency;
  const parts = timeShares(estimate.placement).map(({ unit, part }) => ({ unit, amount: part, text: duration(part * value) }));
  const percent = (seconds: number) => `${props.slowest ? (seconds / props.slowest) * 100 : 0}%`;
  return (
    <>
      <td class="wide">
        <span class="range" title={`${duration(low)} – ${duration(high)} (80 % interval); ${basisText(estimate)}`}>
          <span class="range-line" style={{ left: percent(low), width: percent(high - low) }} />
          <span class="range-point" style={{ left: percent(value) }} />
        </span>
        <span class="bar-label">
          {duration(value)}{" "}
          <span class="faint">
            {duration(low)} – {duration(high)}
            {(estimate.own || estimate.basis === "extrapolated") && `, ${basisText(estimate)}`}
          </span>
        </span>
      </td>
      <td class="wide">{parts.length > 0 ? <UnitBar parts={parts} /> : "not known"}</td>
      <td class="dim">{BOUND_WORDS[estimate.bound]}</td>
    </>
  );
}
