import { plural, share } from "../format";
import type { Agreement, Disagreement, Plan } from "./schema";
import { SETTING_NAMES, UNDECIDED_WORDS } from "./words";

/** `M1, macOS 14.5, CPU + NE`. */
export function agreementName(plans: readonly Plan[], found: Agreement): string {
  const plan = plans[found.theirs];
  return [plan?.device, plan?.os, SETTING_NAMES[found.compute_units]].filter(Boolean).join(", ");
}

/** How many operations are on the same unit, and by whose costs, as in `agreement.py`. */
export function agreementText(found: Agreement): string {
  const rest = found.unknown ? `; the rules do not cover ${plural(found.unknown, "more operation")}` : "";
  if (found.share === null) return `no operation has a unit in both plans${rest}`;
  const whose = found.weighted_by === "Core ML" ? "Core ML's costs" : "our planned costs";
  const byCost = found.cost_share === null ? "" : ` (${share(found.cost_share)} by ${whose})`;
  const verb = found.compared === 1 ? "is" : "are";
  const same = `${share(found.share)} of ${plural(found.compared, "operation")} ${verb} on the same unit${byCost}`;
  const count = plural(found.compared - found.undecided, "operation");
  const decided = found.undecided && found.decided_share !== null;
  return same + (decided ? `; ${share(found.decided_share ?? 0)} of the ${count} whose unit the evidence decides` : "") + rest;
}

/** Our reasons against Core ML's unit, and what Core ML says about ours. */
export function disagreementText(one: Disagreement): string {
  const why = one.why.join("; ") || (one.ours === null ? "no rule covers it" : "");
  const ours = [why, one.undecided && UNDECIDED_WORDS[one.undecided]].filter(Boolean).join("; ");
  return [ours && `rules: ${ours}`, one.message && `Core ML: ${one.message}`].filter(Boolean).join(". ");
}
