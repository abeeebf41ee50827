/** A report in a few lines of Markdown, for an issue or a chat. */
import { duration, fileName, percent } from "../format";
import type { Report } from "../report";
import { type Change, timeShares } from "./answers";
import { measurementName, targetName } from "./profile";
import type { Estimate } from "./schema";
import { SETTING_NAMES, UNIT_NAMES } from "./words";

type Summarized = Pick<Report, "model" | "target" | "setting" | "estimate" | "measurements" | "profile">;

/** The answers of the first screen as Markdown, each with the origin of its numbers. */
export function toMarkdown(report: Summarized, facts: string, changes: readonly Change[]): string {
  const { model, target, setting, measurements, estimate, profile } = report;
  const where = target ? `${text(targetName(target))}, ${SETTING_NAMES[setting]}` : "";
  const blocks = [
    `# ${text(fileName(model.path))}`,
    text(facts),
    text(profile?.answer?.verdict ?? ""),
    list([
      estimate && `**Estimated on ${where}:** ${latencyText(estimate)}`,
      ...measurements.flatMap((one) => {
        const found = one.predict?.statistics;
        return found ? [`**Measured by ${text(measurementName(measurements, one))}:** ${duration(found.median)} (median)`] : [];
      }),
    ]),
    changes.length > 0 &&
      `Changes worth making, estimated:\n\n${list(changes.map((one) => `${text(one.text)}: ${one.saving}, ${one.certainty}`))}`,
  ];
  return `${blocks.filter(Boolean).join("\n\n")}\n`;
}

const list = (lines: readonly (string | false | null)[]): string =>
  lines
    .filter(Boolean)
    .map((line) => `- ${line}`)
    .join("\n");

function latencyText(estimate: Estimate): string {
  const { latency, basis } = estimate;
  const interval = `${duration(latency.low)} – ${duration(latency.high)}`;
  const shares = timeShares(estimate).map(({ unit, part }) => `${UNIT_NAMES[unit]} ${percent(part)}`);
  return [`${duration(latency.value)} (80 % interval ${interval}${basis === "extrapolated" ? ", extrapolated" : ""})`, ...shares].join(
    "; ",
  );
}

/** Escapes a text from the model for Markdown; as in `escaping.py`. */
function text(value: string): string {
  return value
    .replace(/[\r\n]+/g, " ")
    .replace(/[\\`*|]|~(?=~)|(?<![\p{L}\p{N}_])_|_(?![\p{L}\p{N}_])|(?<=\])[([:]/gu, "\\$&")
    .replace(/&(?=#?\w+;)/g, "&amp;")
    .replaceAll("<", "&lt;")
    .replace(/^(?=#{1,6}(?:\s|$)|[-+](?:\s|$)|>|-{2,}|={2,})/, "\\");
}
