import { plural } from "../format";
import type { Answer, ComputeUnits, Estimate, Finding, Kernel, Measurement, Phase, Plan, Profile, SettingPlan, Statistics } from "./schema";
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
export function targetsOf(profile: Pick<Profile, "plans" | "estimates"> & Partial<Pick<Profile, "answers">>): Target[] {
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
  for (const { device, os, compute_units: setting } of profile.answers ?? []) {
    const same = found.filter((one) => one.device === device && one.os === os && (one.plan?.planner ?? "rules") === "rules");
    for (const one of same) if (!one.settings.includes(setting)) one.settings.push(setting);
  }
  return found.filter((one) => one.settings.length > 0);
}

/** The answer for a device under a setting; null where there is none. */
export const answerOf = ({ answers }: Pick<Profile, "answers">, { device, os }: Target, setting: ComputeUnits): Answer | null =>
  answers.find((one) => one.device === device && one.os === os && one.compute_units === setting) ?? null;

function target(device: string, os: string, plan: Plan | null): Target {
  const settings = plan?.settings.map((one) => one.compute_units) ?? [];
  return { key: [device, os, plan?.planner ?? ""].join("\n"), device, os, plan, estimates: new Map(), settings };
}

/** The id of the device's chip; undefined where nothing names it. */
export const chipOf = (one: Target): string | undefined => one.plan?.chip ?? [...one.estimates.values()][0]?.chip;

/** Whether a measurement was taken on the device, by Apple's own runtime. */
export function isOn(measurement: Measurement, target: Target): boolean {
  const plain = (name: string) =>
    name
      .toLowerCase()
      .replace(/^apple /, "")
      .replace(/[^a-z0-9]/g, "");
  const names = [target.device, chipOf(target) ?? ""].map(plain);
  return /^Core (ML|AI)/.test(measurement.runtime.name) && names.includes(plain(measurement.machine.processor));
}

/** `M1, macOS 15`, with who planned where that is not coremlscope. */
export function targetName(one: Target): string {
  const planner = one.plan && one.plan.planner !== "rules" ? `, planned by ${one.plan.planner}` : "";
  return `${one.device}${one.os && `, ${one.os}`}${planner}`;
}

/** Planned cost of all functions in milliseconds; null where the planner gives no costs. */
export function totalMs(plan: Plan, setting: SettingPlan): number | null {
  const total = Object.values(setting.functions).reduce((sum, one) => sum + one.total_ms, 0);
  const isKnown = total > 0 || Object.keys(plan.ops.cost_ms).length > 0;
  return isKnown ? total : null;
}

/** How often execution changes its unit. */
export const switches = (setting: SettingPlan): number => Object.values(setting.functions).reduce((sum, one) => sum + one.switches, 0);

/** A row of the table of phases; `samples_s` are those that its statistics summarize. */
export interface PhaseRow {
  name: string;
  statistics: Statistics;
  samples_s: number[];
}

const PHASES = [
  ["predict", "Predict"],
  ["load", "Load"],
  ["first_load", "First load"],
  ["compile", "Compile"],
] as const;

/** The measured phases with their titles: those of every measurement, then other ways to predict. */
export function measuredPhases(measurement: Measurement): [string, Phase][] {
  const usual = PHASES.flatMap(([name, title]): [string, Phase][] => {
    const phase = measurement[name];
    return phase ? [[title, phase]] : [];
  });
  return [...usual, ...Object.entries(measurement.other_predictions)];
}

/** The statistics of each phase: of its times, then of those through Python, where they differ. */
export function phaseRows(measurement: Measurement): PhaseRow[] {
  return measuredPhases(measurement).flatMap(([title, phase]) => {
    const { statistics, samples_s, remark, through_python: outer } = phase;
    const rows: PhaseRow[] = [{ name: remark ? `${title}, ${remark}` : title, statistics, samples_s }];
    if (outer) rows.push({ name: `${title}, through Python`, statistics: outer.statistics, samples_s: outer.samples_s });
    return rows;
  });
}

/** What the rows through Python are, as in `timing.py`; empty where there are none. */
export function pythonNote(measurement: Measurement): string {
  if (!PHASES.some(([name]) => measurement[name]?.through_python)) return "";
  const { name, through } = measurement.runtime;
  const by = through && `, taken by ${through} around its calls`;
  return `loads and predictions are ${name}'s own times${by}; through Python they also contain the conversion of inputs and outputs`;
}

/** `thermal state: nominal, then moderate; AC Power`, as in `timing.py`; empty where no conditions are known. */
export function conditionsText(measurement: Measurement): string {
  const { before, after } = measurement;
  const parts = [
    ["thermal state: ", before?.thermal_state ?? "", after?.thermal_state ?? ""],
    ["power mode: ", before?.power_mode ?? "", after?.power_mode ?? ""],
    ["", before?.power_source ?? "", after?.power_source ?? ""],
  ] as const;
  return parts
    .filter(([, start, end]) => start || end)
    .map(([name, start, end]) => name + (start === end ? start : `${start || "unknown"}, then ${end || "unknown"}`))
    .join("; ");
}

const SEVERITIES = ["error", "warning", "info"] as const;

/** Different findings: errors first, then warnings. */
export function sortFindings(findings: readonly Finding[]): Finding[] {
  const distinct = new Map(findings.map((one) => [`${one.id}\n${one.text}`, one]));
  return [...distinct.values()].sort((a, b) => SEVERITIES.indexOf(a.severity) - SEVERITIES.indexOf(b.severity));
}

/** Tells a finding from others of a profile. */
export const findingKey = ({ id, text }: Finding): string => `${id} ${text}`;

/** The findings of a profile and of its measurements. */
export const findingsOf = (profile: Profile): Finding[] =>
  sortFindings([...profile.findings, ...profile.measurements.flatMap((one) => one.findings)]);

/** The label of a measurement, with what else tells it from others of the same label, as in `timing.py`. */
export function measurementName(all: readonly Measurement[], one: Measurement): string {
  const name = nameAmong(all, one);
  const equal = all.filter((other) => nameAmong(all, other) === name);
  return equal.length < 2 ? name : `${name} #${equal.indexOf(one) + 1}`;
}

function nameAmong(all: readonly Measurement[], one: Measurement): string {
  const twins = all.filter((other) => other.label === one.label);
  const isTold = (value: (of: Measurement) => unknown) => new Set(twins.map(value)).size > 1;
  const parts = [one.label];
  if (one.compute_units) parts.push(settingName(one.compute_units));
  if (isTold((of) => of.machine.power_mode)) parts.push(`power mode: ${one.machine.power_mode || "unknown"}`);
  if (isTold((of) => of.threads) && one.threads !== null) parts.push(plural(one.threads, "thread"));
  return parts.join(", ") + (one.partial ? " (partial)" : "");
}

/** The types of a kernel's operations: `conv + relu`. */
export const kernelLabel = (types: readonly string[], kernel: Kernel): string => kernel.ops.map((op) => types[op] ?? "").join(" + ");

/** Whether a plan says of any operation where it runs; those of models without a network do not. */
export const covers = (plan: Plan): boolean => plan.ops.id.length > 0;
