import type { ComputeUnits, Estimate, Finding, Kernel, Measurement, Plan, Profile, SettingPlan } from "./schema";
import { settingName } from "./words";

/** A device with what is planned and estimated for it. Plans of different planners are targets of their own. */
export interface Target {
  /** Tells it from the other targets. */
  key: string;
  device: string;
  os: string;
  plan: Plan | null;
  /** By setting. */
  estimates: Map<ComputeUnits, Estimate>;
  /** The settings that are planned or estimated, the requested one first. */
  settings: ComputeUnits[];
}

/** The devices that a profile has plans or estimates for, planned ones first. */
export function targetsOf(profile: Pick<Profile, "plans" | "estimates">): Target[] {
  const found = profile.plans.map((plan) => target(plan.device, plan.os, plan));
  for (const estimate of profile.estimates) {
    const same = found.filter((one) => one.device === estimate.device && one.os === estimate.os);
    // Estimates follow from coremlscope's own plan, where there is one.
    let owner = same.find((one) => one.plan?.planner === "rules") ?? same[0];
    if (!owner) {
      owner = target(estimate.device, estimate.os, null);
      found.push(owner);
    }
    owner.estimates.set(estimate.compute_units, estimate);
    if (!owner.settings.includes(estimate.compute_units)) owner.settings.push(estimate.compute_units);
  }
  return found.filter((one) => one.settings.length > 0);
}

function target(device: string, os: string, plan: Plan | null): Target {
  const settings = plan?.settings.map((one) => one.compute_units) ?? [];
  return { key: [device, os, plan?.planner ?? ""].join("\n"), device, os, plan, estimates: new Map(), settings };
}

/** `M1, macOS 15`, with who planned where that is not coremlscope. */
export function targetName(one: Target): string {
  const planner = one.plan && one.plan.planner !== "rules" ? `, planned by ${one.plan.planner}` : "";
  return `${one.device}${one.os && `, ${one.os}`}${planner}`;
}

/** Planned cost of all functions in milliseconds; null where the planner gives no costs. */
export function totalMs(plan: Plan, setting: SettingPlan): number | null {
  const total = Object.values(setting.functions).reduce((sum, one) => sum + one.total_ms, 0);
  const isKnown = total > 0 || Object.values(plan.cost_ms).some((column) => column.some((cost) => cost !== null));
  return isKnown ? total : null;
}

/** How often execution changes its unit. */
export const switches = (setting: SettingPlan): number => Object.values(setting.functions).reduce((sum, one) => sum + one.switches, 0);

/** Sequential predictions per second; null where none was timed. */
export function predictionsPerSecond(measurement: Measurement): number | null {
  const mean = measurement.predict?.statistics.mean;
  return mean ? 1 / mean : null;
}

/** A finding and the label of the measurement that it belongs to, if any. */
export interface Remark {
  finding: Finding;
  on: string;
}

const SEVERITIES = ["error", "warning", "info"] as const;

/** The findings of a profile and of its measurements: errors first, then warnings. */
export function remarksOf(profile: Profile): Remark[] {
  const all = [
    ...profile.findings.map((finding) => ({ finding, on: "" })),
    ...profile.measurements.flatMap((one) => one.findings.map((finding) => ({ finding, on: one.label }))),
  ];
  const seen = new Set<string>();
  const distinct = all.filter(({ finding, on }) => {
    const key = [finding.id, finding.text, on].join("\n");
    return !seen.has(key) && seen.add(key);
  });
  return distinct.sort((a, b) => SEVERITIES.indexOf(a.finding.severity) - SEVERITIES.indexOf(b.finding.severity));
}

/** The name of a measurement in menus: its label, with its setting where another measurement has the same label. */
export function measurementName(all: readonly Measurement[], one: Measurement): string {
  const same = all.filter((other) => other.label === one.label);
  if (same.length < 2) return one.label;
  const named = one.compute_units ? `${one.label}, ${settingName(one.compute_units)}` : one.label;
  const equal = same.filter((other) => other.compute_units === one.compute_units);
  return equal.length < 2 ? named : `${named} #${equal.indexOf(one) + 1}`;
}

/** The types of a kernel's operations: `conv + relu`. */
export const kernelLabel = (types: readonly string[], kernel: Kernel): string => kernel.ops.map((op) => types[op] ?? "").join(" + ");
