/** A report in a few lines of Markdown, for an issue or a chat. */
import { cost, duration, figure, fileName, share } from "../format";
import { changes, spending, unitSeconds } from "./answers";
import type { Placement } from "./placement";
import { measurementName, type Remark, type Target, targetName } from "./profile";
import type { Rows } from "./rows";
import type { Estimate, Group, Kernel, Measurement, ModelSummary, OpTable } from "./schema";
import { plannedColumns, unitShares } from "./totals";
import { SETTING_NAMES, UNIT_NAMES } from "./words";

/** What a summary is made from. */
export interface Summarized {
  model: ModelSummary;
  table: OpTable;
  rows: Rows;
  kernels: readonly Kernel[];
  groups: readonly Group[];
  estimate: Estimate | null;
  placement: Placement | null;
  target: Target | null;
  setting: keyof typeof SETTING_NAMES;
  measurements: readonly Measurement[];
  remarks: readonly Remark[];
}

/** The answers of the first screen as Markdown, each with the origin of its numbers. */
export function toMarkdown(report: Summarized, facts: string): string {
  const { model, target, setting, measurements } = report;
  const where = target ? `${text(targetName(target))}, ${SETTING_NAMES[setting]}` : "";
  const blocks = [
    `# ${text(fileName(model.path))}`,
    text(facts),
    list([
      report.estimate && `**Estimated on ${where}:** ${latencyText(report.estimate)}`,
      !report.estimate && report.placement?.totalMs != null && `**Planned cost on ${where}:** ${cost(report.placement.totalMs)}`,
      ...measurements.flatMap((one) => {
        const found = one.predict?.statistics;
        return found ? [`**Measured by ${text(measurementName(measurements, one))}:** ${duration(found.median)} (median)`] : [];
      }),
    ]),
    units(report),
    dearest(report),
    advice(report),
  ];
  return `${blocks.filter(Boolean).join("\n\n")}\n`;
}

const list = (lines: readonly (string | false | null)[]): string =>
  lines
    .filter(Boolean)
    .map((line) => `- ${line}`)
    .join("\n");

function latencyText({ latency, basis }: Estimate): string {
  const interval = `${duration(latency.low)} – ${duration(latency.high)}`;
  return `${duration(latency.value)} (80 % interval ${interval}${basis === "extrapolated" ? ", extrapolated" : ""})`;
}

function units({ placement, rows, estimate }: Summarized): string {
  if (!placement) return "";
  const shares = unitShares(placement, plannedColumns(rows));
  const counts = shares.map((one) => `${one.unit ? UNIT_NAMES[one.unit] : "not known"} ${one.ops}`);
  const times = estimate ? unitSeconds(estimate).map((one) => `${nameOf(one.unit)} ${share(one.seconds / estimate.latency.value)}`) : [];
  return [`Operations (planned): ${counts.join(" · ")}`, times.length > 0 && `Time (estimated): ${times.join(" · ")}`]
    .filter(Boolean)
    .join("  \n");
}

const nameOf = (unit: ReturnType<typeof unitSeconds>[number]["unit"]): string =>
  unit === "overhead" ? "launches and changes of unit" : UNIT_NAMES[unit];

function dearest(report: Summarized): string {
  const found = spending(report);
  if (!found) return "";
  const rows = found.dearest.map(
    (one) =>
      `| ${text(one.name || one.label)} | ${text(one.label)} | ${figure(one.seconds, found.origin)} | ${share(one.seconds / found.totalSeconds)} |`,
  );
  return [`| most expensive | operations | ${found.origin} | share |`, "|---|---|---:|---:|", ...rows].join("\n");
}

function advice({ placement, rows, remarks, target }: Summarized): string {
  const findings = remarks.map((one) => one.finding);
  const found = placement ? changes({ placement, rows, findings, estimates: target?.estimates }) : [];
  if (found.length === 0) return "";
  return `Changes worth making:\n\n${list(found.map((one) => `${text(one.text)} (${one.saving}, ${one.origin})`))}`;
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
