import { duration, energy as joules, plural, power, share } from "../format";
import type { Energy, Recording, SystemPart, UnitActivity } from "./schema";
import { UNIT_NAMES } from "./words";

export const PART_NAMES: Record<SystemPart, string> = { ...UNIT_NAMES, memory: "memory", system: "whole system" };

const LISTED = 3;

/** Busy time in a prediction: the median where predictions are delimited, otherwise a mean, which is marked. */
export function busyPerPrediction(recording: Recording, one: UnitActivity): string {
  if (one.per_prediction) return duration(one.per_prediction.median);
  return recording.predictions ? `⌀ ${duration(one.busy_s / recording.predictions)}` : "–";
}

/** Whose work the intervals are. */
export function whose(recording: Recording, one: UnitActivity): string {
  if (one.scope === "device") return "the whole device";
  const names = one.processes.map((part) => part.name);
  if (names.includes(recording.target)) return recording.target;
  const more = names.length > LISTED ? ` and ${names.length - LISTED} more` : "";
  return names.slice(0, LISTED).join(", ") + more;
}

/** Sentences about a recording: its size, tables that are empty or absent, samples of call stacks. */
export function recordingLines(recording: Recording): string[] {
  const { tool, template, duration_s, predictions, are_delimited, tables, samples, total_samples } = recording;
  const how = are_delimited ? "delimited by Core ML's table" : "not delimited; ⌀ is a mean";
  const lines = [
    [
      tool,
      template && `template ${template}`,
      duration_s !== null && duration(duration_s),
      predictions && `${plural(predictions, "prediction")} (${how})`,
    ]
      .filter(Boolean)
      .join(", "),
  ];
  const without = Object.entries(tables).filter(([, rows]) => !rows);
  if (without.length) lines.push(without.map(([name, rows]) => `${name}: ${rows === null ? "no such table" : "no rows"}`).join("; "));
  if (total_samples) {
    const named = samples.map((one) => `${UNIT_NAMES[one.unit]} ${share(one.samples / total_samples)}`).join(", ");
    lines.push(`of ${plural(total_samples, "stack sample")} in software of a unit: ${named || "none"}`);
  }
  return lines;
}

export interface EnergyRow {
  name: string;
  energy: string;
  power: string;
  perPrediction: string;
}

/** A row for each part of the system whose energy is known. */
export function energyRows({ units, predictions }: Energy): EnergyRow[] {
  return units.map(({ unit, energy_j, power_w }) => ({
    name: PART_NAMES[unit],
    energy: energy_j === null ? "–" : joules(energy_j),
    power: power(power_w),
    perPrediction: energy_j !== null && predictions ? joules(energy_j / predictions) : "–",
  }));
}

/** What the energy is of. */
export function energyLine({ tool, samples, window_s, predictions, thermal }: Energy): string {
  return [
    `${tool}, ${plural(samples, "reading")}${window_s === null ? "" : ` over ${duration(window_s)}`}`,
    "of the whole system",
    predictions && plural(predictions, "prediction"),
    thermal.length > 0 && `thermal pressure ${thermal.join(" → ")}`,
  ]
    .filter(Boolean)
    .join(", ");
}
