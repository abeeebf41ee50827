import { useMemo } from "preact/hooks";
import { timeShares } from "../../data/answers";
import type { ModelSummary } from "../../data/schema";
import { otherPlanLine, plannedColumns, undecidedLine, unitShares } from "../../data/totals";
import { isPlanned, UNIT_NAMES, UNIT_SHORT } from "../../data/words";
import { duration, fileName, percent, plural } from "../../format";
import { useAnswer, useReport } from "../../report";
import { Hint } from "../../ui/hint";
import { OriginTag } from "../../ui/origin";
import { UnitBar } from "../../ui/units";
import { Card } from "./card";

/** How many reasons are listed. */
const REASONS = 3;
/** Smaller shares are 0 %. */
const LEAST = 0.005;

/** Operations and time by unit, and why operations are not on the Neural Engine. */
export function Where() {
  const { placement, estimate } = useReport();
  return (
    <Card
      id="where"
      question="Where does it run?"
      tags={
        <>
          {placement && <OriginTag origin="planned" />}
          {estimate && <OriginTag origin="estimated" />}
        </>
      }
    >
      {placement ? <Shares /> : <NotPlanned />}
    </Card>
  );
}

function Shares() {
  const { placement, rows, table, filterUnit } = useReport();
  const shares = useMemo(() => (placement ? unitShares(placement, plannedColumns(rows)) : []), [placement, rows]);
  const undecided = useMemo(() => (placement ? undecidedLine(placement, plannedColumns(rows)) : ""), [placement, rows]);
  const close = placement ? otherPlanLine(placement) : "";
  const total = shares.reduce((sum, one) => sum + one.ops, 0);
  const answer = useAnswer();
  const times = answer ? timeShares(answer.units) : [];
  return (
    <>
      <div class="answer-row">
        <span class="answer-label">
          {total} <span class="roomy">{total === 1 ? "operation" : "operations"}</span>
          <span class="tight">ops</span>
        </span>
        <UnitBar parts={shares.map((one) => ({ unit: one.unit, amount: one.ops, text: plural(one.ops, "operation") }))} />
        <span class="unit-counts">
          {shares.map((one) => (
            <button
              key={one.unit ?? "none"}
              type="button"
              class="unit-count"
              title="Show these operations in the layer table"
              onClick={() => filterUnit(one.unit ?? "none")}
            >
              <span class={`swatch fill-${one.unit ?? "none"}`} />
              {one.unit ? UNIT_NAMES[one.unit] : "not known"} <b>{one.ops}</b>
            </button>
          ))}
        </span>
      </div>
      {answer?.latency && times.length > 0 && (
        <div class="answer-row">
          <span class="answer-label">time</span>
          <UnitBar parts={times.map(({ unit, part }) => ({ unit, amount: part, text: duration(part * (answer.latency?.value ?? 0)) }))} />
          <span class="unit-counts">
            {times
              .filter(({ part }) => part >= LEAST)
              .map(({ unit, part }) => (
                <span key={unit} class="unit-count">
                  <span class={`swatch fill-${unit}`} />
                  <span class="roomy">{UNIT_NAMES[unit]}</span>
                  <span class="tight">{UNIT_SHORT[unit]}</span> <b>{percent(part)}</b>
                </span>
              ))}
          </span>
        </div>
      )}
      {undecided && <p class="answer-text">◐ {undecided}.</p>}
      {close && <p class="answer-text">{close}.</p>}
      <h3 class="card-question">Why not on the Neural Engine?</h3>
      <WhyNot />
      {total > table.id.length && <p class="answer-text roomy">{addedWords(table.id.length, total)}</p>}
    </>
  );
}

/** Tells the operations of the file from those that Core ML adds. */
const addedWords = (ofFile: number, planned: number): string =>
  `${ofFile} of the file, and ${planned - ofFile} that Core ML adds at inputs and outputs.`;

function WhyNot() {
  const reasons = useAnswer()?.why;
  if (!reasons) return <p class="answer-text">Not known for this setting.</p>;
  if (reasons.length === 0) return <p class="answer-text">All of the time is on it.</p>;
  return (
    <ul class="answer-list">
      {reasons.slice(0, REASONS).map((one) => (
        <li key={one.rule}>
          <b>
            {percent(one.share)}, {plural(one.ops, "operation")}:
          </b>{" "}
          {one.text} {one.example && <OpLink id={one.example} />}
          {one.saved_s && one.saved_s.value > 0 && <span class="faint"> without it {duration(one.saved_s.value)} less</span>}
        </li>
      ))}
      {reasons.length > REASONS && (
        <li class="faint">
          <a href="#findings">{plural(reasons.length - REASONS, "more reason")}</a>
        </li>
      )}
    </ul>
  );
}

/** Goes to an operation in the layer table. */
function OpLink(props: { id: string }) {
  const { showOp, rows } = useReport();
  const row = rows.byId.get(props.id);
  return (
    <button type="button" class="link" onClick={() => showOp(props.id)}>
      {row?.layer || row?.name}
    </button>
  );
}

/** Whether all of a model is of kinds that Core ML runs on the CPU. */
function isOnCpu(model: ModelSummary): boolean {
  const parts = model.stages.length > 0 ? model.stages.filter((stage) => !stage.kind.startsWith("pipeline")) : [model];
  return parts.every((one) => one.kind !== "" && !isPlanned(one.kind) && !one.absent);
}

function NoOperations() {
  return (
    <>
      <h3 class="card-question">Why not on the Neural Engine?</h3>
      <p class="answer-text">It runs operations of programs and neural networks; these models have none.</p>
    </>
  );
}

function NotPlanned() {
  const { model, target, findings } = useReport();
  const why = findings.find((one) => one.id === "not-estimated");
  const notes = target?.plan?.notes ?? [];
  if (notes.length > 0)
    return (
      <>
        {notes.map((note) => (
          <p class={`answer-text ${model.stages.some(({ name }) => note.startsWith(name)) ? "" : "sentence"}`} key={note}>
            {note}.
          </p>
        ))}
        {isOnCpu(model) && <NoOperations />}
      </>
    );
  if (!isPlanned(model.kind))
    return (
      <>
        <p class="answer-text">
          <b>CPU:</b> Core ML runs models of this kind there. Its plans cover only programs and neural networks.
        </p>
        {isOnCpu(model) && <NoOperations />}
      </>
    );
  if (why)
    return (
      <p class="answer-text">
        {why.text}{" "}
        {why.hint && (
          <>
            → <Hint text={why.hint} />
          </>
        )}
      </p>
    );
  if (target) return <p class="answer-text">Not planned for {target.device} with this setting.</p>;
  return (
    <p class="answer-text">
      Choose devices to see it: <code>coremlscope profile {fileName(model.path)} --device m1,iphone-15-pro</code>
    </p>
  );
}
