/** A report in a few lines of Markdown, for an issue or a chat. */
import { duration, fileName } from "../format";
import type { Report } from "../report";
import { measurementName, targetName } from "./profile";
import type { Answer, Figure } from "./schema";
import { gainText, SETTING_NAMES } from "./words";

type Summarized = Pick<Report, "model" | "target" | "setting" | "measurements">;

/** The answers of the first screen as Markdown, each with the origin of its numbers. */
export function toMarkdown(report: Summarized, facts: string, answer: Answer | null): string {
  const { model, target, setting, measurements } = report;
  const changes = answer?.changes.filter((one) => one.after) ?? [];
  const where = target ? `${text(targetName(target))}, ${SETTING_NAMES[setting]}` : "";
  const blocks = [
    `# ${text(fileName(model.path))}`,
    text(facts),
    text(answer?.headline ?? ""),
    list([
      answer?.latency && `**Estimated on ${where}:** ${latencyText(answer.latency)}`,
      ...measurements.flatMap((one) => {
        const found = one.predict?.statistics;
        return found ? [`**Measured by ${text(measurementName(measurements, one))}:** ${duration(found.median)} (median)`] : [];
      }),
    ]),
    changes.length > 0 &&
      `Changes worth making, estimated:\n\n${list(changes.map((one) => `${text(one.text)}: ${gainText(one)}, ${one.certainty}`))}`,
  ];
  return `${blocks.filter(Boolean).join("\n\n")}\n`;
}

const list = (lines: readonly (string | false | null | undefined)[]): string =>
  lines
    .filter(Boolean)
    .map((line) => `- ${line}`)
    .join("\n");

const latencyText = ({ value, low, high }: Figure): string => `${duration(value)} (80 % interval ${duration(low)} – ${duration(high)})`;

/** Escapes a text from the model for Markdown; as in `escaping.py`. */
function text(value: string): string {
  return value
    .replace(/[\r\n]+/g, " ")
    .replace(/[\\`*|]|~(?=~)|(?<![\p{L}\p{N}_])_|_(?![\p{L}\p{N}_])|(?<=\])[([:]/gu, "\\$&")
    .replace(/&(?=#?\w+;)/g, "&amp;")
    .replaceAll("<", "&lt;")
    .replace(/^(?=#{1,6}(?:\s|$)|[-+](?:\s|$)|>|-{2,}|={2,})/, "\\");
}
