import { useMemo, useState } from "preact/hooks";
import { CORE_ML_RULE } from "../data/placement";
import { findingKey } from "../data/profile";
import type { Answer, Finding } from "../data/schema";
import { type Obstacle, obstacleKey, obstacles } from "../data/totals";
import { SETTING_NAMES, SEVERITY_WORDS, UNIT_NAMES } from "../data/words";
import { plural } from "../format";
import { useReport } from "../report";
import { findingPage, rulePage } from "../site";
import { About } from "../ui/about";
import { CopyButton } from "../ui/copy";
import { Hint } from "../ui/hint";
import { More } from "../ui/more";
import { OriginTag } from "../ui/origin";
import { Section } from "../ui/section";
import { Operations } from "./operations";

const LISTED = 6;

/** Findings, and the reasons that keep operations from faster units with the plan as it would be without them. */
export function Findings() {
  const { findings: every, placement, rows, answer } = useReport();
  const findings = useMemo(() => every.filter((finding) => !isAnswered(finding, answer)), [every, answer]);
  const notes = (placement?.plan.notes ?? []).filter((note) => !findings.some((one) => one.text.startsWith(note)));
  const found = useMemo(() => (placement ? obstacles(placement, rows) : []), [placement, rows]);
  const [isOpen, open] = useState(false);
  return (
    <Section
      id="findings"
      title="Findings"
      actions={<CopyButton label="Copy the findings as text" text={() => toText(findings, notes, found)} />}
    >
      <FindingList findings={findings} />
      {placement && (
        <>
          <h3 class="findings-title">
            What keeps operations from faster units on {placement.plan.device}, {SETTING_NAMES[placement.name]}{" "}
            <OriginTag origin="planned" /> {found.some((one) => one.effect) && <OriginTag origin="estimated" />}
          </h3>
          {found.length === 0 && <p class="dim">No rule keeps an operation from a unit that the setting allows.</p>}
          <ul class="findings">
            {notes.map((note) => (
              <li key={note} class="finding finding-info">
                <span class="severity">Note</span>
                <div class="sentence">{note}</div>
              </li>
            ))}
            {(isOpen ? found : found.slice(0, LISTED)).map((one) => (
              <ObstacleItem key={obstacleKey(one)} obstacle={one} />
            ))}
          </ul>
          <More listed={LISTED} total={found.length} isOpen={isOpen} open={open} />
        </>
      )}
    </Section>
  );
}

/** Whether the answer says it: what its changes are about, and findings on cost that gain nothing there. */
function isAnswered(finding: Finding, answer: Answer | null): boolean {
  if (!answer?.latency) return false;
  return answer.changes.some(({ id }) => id === finding.id) || (finding.severity === "info" && finding.confidence !== "");
}

/** How a finding is known, and what applies its remedy. */
const factsOf = ({ transform, confidence }: Finding): string =>
  [transform && `what-if --try ${transform} applies it.`, confidence && `Evidence: ${confidence}.`].filter(Boolean).join(" ");

/** Findings with what to do about them. */
export function FindingList(props: { findings: readonly Finding[] }) {
  if (props.findings.length === 0) return null;
  return (
    <ul class="findings">
      {props.findings.map((finding) => {
        const facts = factsOf(finding);
        return (
          <li key={findingKey(finding)} class={`finding finding-${finding.severity}`}>
            <span class="severity">{SEVERITY_WORDS[finding.severity]}</span>
            <div>
              {finding.text}
              {finding.hint && (
                <div class="fix">
                  → <Hint text={finding.hint} />
                </div>
              )}
              {facts && <div class="dim">{facts}</div>}
              {findingPage(finding.id) && (
                <div class="faint">
                  <About id={finding.id} page={findingPage(finding.id)} />
                </div>
              )}
              <Operations ids={finding.ops} cause={findingKey(finding)} />
            </div>
          </li>
        );
      })}
    </ul>
  );
}

function ObstacleItem(props: { obstacle: Obstacle }) {
  const { hypothesis, reason, ids, effect } = props.obstacle;
  const isDoubt = hypothesis === "doubt";
  return (
    <li class={isDoubt ? "finding finding-info" : "finding"}>
      <span class="severity">{isDoubt ? "In doubt" : UNIT_NAMES[reason.unit]}</span>
      <div>
        <div class="sentence">{reason.text}</div>
        {effect && <div class="sentence">{effect}</div>}
        {reason.fix && <div class="fix">→ {reason.fix}</div>}
        <div class="dim">
          {props.obstacle.function && `${props.obstacle.function}: `}
          {hypothesis !== "moved" && hypothesis !== "without all" && (
            <span class="faint">
              {reason.rule === CORE_ML_RULE ? (
                "Core ML's own message"
              ) : (
                <>
                  Rule <About id={reason.rule} page={rulePage(reason.rule)} />, evidence: {reason.confidence}
                </>
              )}
            </span>
          )}
        </div>
        <Operations ids={ids} cause={obstacleKey(props.obstacle)} />
      </div>
    </li>
  );
}

function toText(findings: readonly Finding[], notes: readonly string[], found: Obstacle[]): string {
  const first = findings.map((one) =>
    [`${one.severity}: ${one.text}`, one.hint && `→ ${one.hint}`, factsOf(one)].filter(Boolean).join(" "),
  );
  const second = found.map(
    (one) =>
      `${UNIT_NAMES[one.reason.unit]}: ${one.reason.text}${one.effect ? `; ${one.effect}` : ""}${one.reason.fix ? ` → ${one.reason.fix}` : ""} (${plural(one.ids.length, "operation")})`,
  );
  return [...first, ...notes.map((note) => `note: ${note}`), ...second].join("\n");
}
