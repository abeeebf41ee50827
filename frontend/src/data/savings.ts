/** What a model costs less without what a finding is about, on the chosen device. */
import { bytes, duration } from "../format";
import type { Placement } from "./placement";
import type { Figure, Finding, Saving } from "./schema";

/** The saving on the device and setting of a plan; undefined where it saves nothing there. */
export const savingOn = (finding: Finding, placement: Placement | null): Saving | undefined =>
  finding.savings.find(
    (one) => one.device === placement?.plan.device && one.os === placement.plan.os && one.compute_units === placement.name,
  );

/** Findings on the cost of a model count where they save time or space; all others, and warnings, always do. */
export const counts = (finding: Finding, placement: Placement | null): boolean =>
  !placement ||
  finding.confidence === "" ||
  finding.severity !== "info" ||
  finding.saved_bytes > 0 ||
  savingOn(finding, placement) !== undefined;

function estimated({ value, low, high }: Figure): string {
  if (low < 0 && high > 0) return `estimated without a clear difference (${duration(-low)} more to ${duration(high)} less)`;
  return `estimated ${duration(value)} less (${duration(low)} to ${duration(high)})`;
}

/** How a finding is known, what it saves, and what applies it: one line below its text. */
export function findingFacts(finding: Finding, placement: Placement | null): string {
  const saving = savingOn(finding, placement);
  const parts = [
    saving?.saved_s && `If fixed: ${estimated(saving.saved_s)}.`,
    finding.saved_bytes > 0 && `Files smaller by ${bytes(finding.saved_bytes)}.`,
    finding.transform && `what-if --try ${finding.transform} applies it.`,
    finding.confidence && `Evidence: ${finding.confidence}.`,
  ];
  return parts.filter(Boolean).join(" ");
}
