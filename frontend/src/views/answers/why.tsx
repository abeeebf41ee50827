import { useMemo } from "preact/hooks";
import { NO_FILTER } from "../../data/filter";
import type { HeldTime, ModelSummary } from "../../data/schema";
import { plannedColumns, unitShares } from "../../data/totals";
import { isPlanned, UNIT_NAMES } from "../../data/words";
import { duration, fileArgument, percent, plural } from "../../format";
import { useReport } from "../../report";
import { Hint } from "../../ui/hint";
import { OriginTag } from "../../ui/origin";
import { UnitBar } from "../../ui/units";
import { passes } from "../layers/filter";
import { Card } from "./card";

/** How many reasons are listed. */
const REASONS = 2;

/** Operations by unit, where no time of theirs is estimated. */
export function PlannedUnits() {
  const { placement, rows, showOnly } = useReport();
  const shares = useMemo(() => (placement ? unitShares(placement, plannedColumns(rows)) : []), [placement, rows]);
  const total = shares.reduce((sum, one) => sum + one.ops, 0);
  return (
    <Card id="where" question="Where does it run?" tags={<OriginTag origin="planned" />}>
      <div class="answer-row">
        <span class="answer-label">{plural(total, "operation")}</span>
        <UnitBar parts={shares.map((one) => ({ unit: one.unit, amount: one.ops, text: plural(one.ops, "operation") }))} />
        <span class="unit-counts">
          {shares.map((one) => (
            <button
              key={one.unit ?? "none"}
              type="button"
              class="unit-count"
              title="Show these operations in the layer table"
              onClick={() => showOnly({ unit: one.unit ?? "none" })}
            >
              <span class={`swatch fill-${one.unit ?? "none"}`} />
              {one.unit ? UNIT_NAMES[one.unit] : "not known"} <b>{one.ops}</b>
            </button>
          ))}
        </span>
      </div>
    </Card>
  );
}

/** Why operations are not on the Neural Engine, by the time that each reason holds; nothing where all of the time is on it. */
export function WhyNot() {
  const { answer } = useReport();
  const reasons = answer?.why ?? [];
  if (reasons.length === 0) return null;
  return (
    <Card id="why" question="Why not on the Neural Engine?" tags={<OriginTag origin="planned" />}>
      <ul class="answer-list">
        {reasons.slice(0, REASONS).map((one) => (
          <li key={one.rule} title={one.text}>
            <b>{percent(one.share)}</b>
            <Count reason={one} />: {one.text} {one.example && <OpLink id={one.example} />}
            {one.saved_s && one.saved_s.value > 0 && <span class="faint"> without it {duration(one.saved_s.value)} less</span>}
          </li>
        ))}
        {reasons.length > REASONS && (
          <li class="faint">
            <a href="#findings">{plural(reasons.length - REASONS, "more reason")}</a>
          </li>
        )}
      </ul>
    </Card>
  );
}

/** How many operations a reason concerns, as a link to them; nothing where the table has others under its rule. */
function Count(props: { reason: HeldTime }) {
  const { ops, rule } = props.reason;
  const report = useReport();
  const isListed = useMemo(
    () => report.rows.all.filter(passes(report, { ...NO_FILTER, reason: rule })).length === ops,
    [report, rule, ops],
  );
  if (!isListed) return null;
  return (
    <>
      ,{" "}
      <button type="button" class="link" onClick={() => report.showOnly({ reason: rule })}>
        {plural(ops, "operation")}
      </button>
    </>
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

/** Why nothing is planned. */
export function NotPlanned() {
  return (
    <Card id="where" question="Where does it run?">
      <WhyNotPlanned />
    </Card>
  );
}

function WhyNotPlanned() {
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
      Choose devices to see it: <code>coremlscope profile {fileArgument(model.path)} --device m1,iphone-15-pro</code>
    </p>
  );
}
