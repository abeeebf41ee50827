import { useMemo } from "preact/hooks";
import { Placement } from "../data/placement";
import type { DevicePlan, SettingPlan } from "../data/profile";
import { buildRows } from "../data/rows";
import { plannedColumns, unitShares } from "../data/totals";
import { BOUND_WORDS, SETTING_NAMES } from "../data/words";
import { duration, plural } from "../format";
import { useReport } from "../report";
import { OriginTag } from "../ui/origin";
import { ScrollRegion } from "../ui/scroll";
import { Section } from "../ui/section";
import { UnitBar, UnitLegend } from "../ui/units";

/** The compute-unit settings side by side, for every planned device. */
export function Settings() {
  const { plans, placement } = useReport();
  return (
    <Section
      id="settings"
      title="Compute units"
      note={
        <>
          <OriginTag origin="planned" />
          <OriginTag origin="estimated" />
          <span>no device was measured</span>
        </>
      }
    >
      <ScrollRegion label="Compute-unit settings side by side">
        <table class="plain settings">
          <thead>
            <tr>
              <th scope="col">Setting</th>
              <th scope="col" title="planned: how the operations divide among units">
                Operations by unit
              </th>
              <th scope="col" class="number" title="planned: how often execution changes the unit">
                Switches
              </th>
              <th scope="col" title="planned: cost of the cheapest path, launches and switches included">
                Planned cost
              </th>
              <th scope="col" title="estimated: how long a prediction takes; the line is the 80 % interval">
                Estimated prediction
              </th>
              <th scope="col">Bound by</th>
              <th scope="col">
                <span class="hidden">Choose</span>
              </th>
            </tr>
          </thead>
          {plans.map((plan, index) => (
            <DeviceSettings key={`${plan.device} ${plan.os}`} plan={plan} index={index} />
          ))}
        </table>
      </ScrollRegion>
      {placement && <UnitLegend units={["neural_engine", "gpu", "cpu"]} />}
      {[...new Set(plans.flatMap((plan) => plan.notes))].map((note) => (
        <p class="dim caption" key={note}>
          {note}
        </p>
      ))}
      <p class="dim caption">
        Planned costs follow Core ML's cost model, as of {[...new Set(plans.map((plan) => plan.cost_model))].join(" and ")}.
      </p>
    </Section>
  );
}

function DeviceSettings(props: { plan: DevicePlan; index: number }) {
  const { plan, index } = props;
  const { table, device, setting, chooseDevice, chooseSetting } = useReport();
  const columns = useMemo(() => plannedColumns(buildRows(table, [], plan)), [table, plan]);
  const worst = Math.max(...plan.settings.map((one) => one.total_ms));
  const slowest = Math.max(...plan.settings.map((one) => one.estimate?.latency.high ?? 0));
  return (
    <tbody>
      <tr class="group-head">
        <th scope="rowgroup" colSpan={7}>
          {plan.device} <span class="faint">{plan.os}</span>
        </th>
      </tr>
      {plan.settings.map((one) => {
        const isShown = index === device && one.compute_units === setting;
        const shares = unitShares(new Placement(plan, one.compute_units, table.id), columns);
        return (
          <tr key={one.compute_units} class={isShown ? "shown" : ""}>
            <th scope="row">{SETTING_NAMES[one.compute_units]}</th>
            <td class="wide">
              <UnitBar parts={shares.map((part) => ({ unit: part.unit, amount: part.ops, text: plural(part.ops, "operation") }))} />
            </td>
            <td class="number">{one.switches}</td>
            <td class="wide">
              <UnitBar
                most={worst}
                parts={shares.map((part) => ({ unit: part.unit, amount: part.costMs, text: duration(part.costMs / 1e3) }))}
              />
              <span class="bar-label">{duration(one.total_ms / 1e3)}</span>
            </td>
            <EstimateCells setting={one} slowest={slowest} />
            <td>
              {isShown ? (
                <span class="faint">shown</span>
              ) : (
                <button
                  type="button"
                  class="quiet"
                  aria-label={`Show ${plan.device}, ${SETTING_NAMES[one.compute_units]}, everywhere on the page`}
                  onClick={() => {
                    chooseDevice(index);
                    chooseSetting(one.compute_units);
                  }}
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

function EstimateCells(props: { setting: SettingPlan; slowest: number }) {
  const estimate = props.setting.estimate;
  if (!estimate) return <td colSpan={2}>not estimated</td>;
  const { value, low, high } = estimate.latency;
  const percent = (seconds: number) => `${props.slowest ? (seconds / props.slowest) * 100 : 0}%`;
  return (
    <>
      <td class="wide">
        <span class="range" title={`${duration(low)} – ${duration(high)} (80 % interval); ${estimate.basis}`}>
          <span class="range-line" style={{ left: percent(low), width: percent(high - low) }} />
          <span class="range-point" style={{ left: percent(value) }} />
        </span>
        <span class="bar-label">
          {duration(value)}{" "}
          <span class="faint">
            {duration(low)} – {duration(high)}
            {estimate.basis === "extrapolated" && ", extrapolated"}
          </span>
        </span>
      </td>
      <td class="dim">{BOUND_WORDS[estimate.bound] ?? estimate.bound}</td>
    </>
  );
}
