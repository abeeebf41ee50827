import type { ComponentChildren } from "preact";
import { conditionsText, predictionsPerSecond, switches } from "../data/profile";
import type { FeatureSummary, Machine, Measurement, Phase, Provenance } from "../data/schema";
import { plannedColumns, unitShares } from "../data/totals";
import { basisText, kindName, SETTING_NAMES, settingName, UNIT_NAMES } from "../data/words";
import { bytes, count, duration, fileName, moment, plural, rateInWords } from "../format";
import { useReport } from "../report";
import { OriginTag } from "../ui/origin";

/** The model, its main figures and its facts. */
export function Header() {
  const { model, profile, measurement, targets } = useReport();
  const main = model.functions[0];
  return (
    <header class="report-head" id="top">
      <h1>{fileName(model.path)}</h1>
      {model.description && <p class="lead">{model.description}</p>}
      {profile && <Tiles />}
      {!model.kind && <p class="lead">This model could not be read; the findings say why.</p>}
      {measurement && targets.length === 0 && isPlanned(model.kind) && (
        <p class="caption dim">
          To see where Apple's devices would run this model and how fast, profile it with <code>--device m1,iphone-15-pro</code>
        </p>
      )}
      <dl class="facts">
        <ModelFacts />
        <Interface title="Inputs" features={main?.inputs ?? []} />
        <Interface title="Outputs" features={main?.outputs ?? []} />
        <Interface title="States" features={main?.states ?? []} />
        {model.stages.length > 0 && (
          <Fact name="Stages">{model.stages.map((stage) => `${stage.name} (${kindName(stage.kind)})`).join(" → ")}</Fact>
        )}
        {model.facts.map(([what, how]) => (
          <Fact name={`${what.charAt(0).toUpperCase()}${what.slice(1)}`} key={what}>
            {how}
          </Fact>
        ))}
        {measurement && <MeasurementFacts measurement={measurement} />}
        {(model.author || model.licence) && <Fact name="By">{[model.author, model.licence].filter(Boolean).join(", ")}</Fact>}
        {profile && <Made made={profile.made} />}
      </dl>
    </header>
  );
}

/** What the file is and what it declares. */
function ModelFacts() {
  const { model } = useReport();
  const main = model.functions[0];
  return (
    <>
      {model.kind && (
        <Fact name="Model">
          {kindName(model.kind)} ({model.container}), {bytes(model.size_bytes)}
          {model.version && `, version ${model.version}`}
        </Fact>
      )}
      {model.platforms && (
        <Fact name="Needs">
          {model.platforms} (specification {model.spec_version}
          {main?.opset && `, ${main.opset}`})
        </Fact>
      )}
      {model.parameters > 0 && (
        <Fact name="Parameters">
          {count(model.parameters)} in {bytes(model.weights_bytes)}:{" "}
          {model.weights
            .map((group) => group.storage)
            .slice(0, 4)
            .join(", ")}
        </Fact>
      )}
      {main && Object.keys(main.compute).length > 0 && <Fact name="Computes in">{precisions(main.compute)}</Fact>}
      {main?.work && (
        <Fact name="Work">
          {main.work.is_complete ? "" : "at least "}
          {count(main.work.flops)} FLOPs per prediction <OriginTag origin="declared" />
        </Fact>
      )}
    </>
  );
}

/** Whether plans exist for this kind of model. */
const isPlanned = (kind: string): boolean => kind === "mlProgram" || kind.startsWith("neuralNetwork");

function Fact(props: { name: string; children: ComponentChildren }) {
  return (
    <div class="fact">
      <dt>{props.name}</dt>
      <dd>{props.children}</dd>
    </div>
  );
}

function Interface(props: { title: string; features: readonly FeatureSummary[] }) {
  if (props.features.length === 0) return null;
  return (
    <Fact name={props.title}>
      {props.features.map((feature) => (
        <span class="feature" key={feature.name} title={feature.preprocessing}>
          <b>{feature.name}</b> {feature.type}
          {feature.flexibility && ` (${feature.flexibility})`}
        </span>
      ))}
    </Fact>
  );
}

function MeasurementFacts(props: { measurement: Measurement }) {
  const { runtime, machine, settings, threads, compute_units: units, measured_at: at } = props.measurement;
  const name = [runtime.name, runtime.version, runtime.through && `through ${runtime.through}`].filter(Boolean).join(" ");
  const conditions = conditionsText(props.measurement);
  return (
    <>
      {settings.function && settings.function !== "main" && <Fact name="Function">{settings.function}</Fact>}
      <Fact name="Measured on">
        {machineText(machine)}
        {at && `; ${moment(at)}`}
      </Fact>
      <Fact name="Runtime">
        {[name, units && settingName(units), threads === null ? "" : plural(threads, "thread"), settings.precision]
          .filter(Boolean)
          .join(", ")}
      </Fact>
      {conditions && <Fact name="Conditions">{conditions}</Fact>}
    </>
  );
}

function machineText(machine: Machine): string {
  const cores = machine.cores === null ? "" : plural(machine.cores, "core");
  return [machine.processor, cores, machine.os, machine.power_mode && `power mode: ${machine.power_mode}`].filter(Boolean).join(", ");
}

/** When, by which version and where the profile was made. */
function Made(props: { made: Provenance }) {
  const { at, version, machine } = props.made;
  if (!at && !version) return null;
  const where = machine ? ` on ${[machine.processor, machine.os].filter(Boolean).join(", ")}` : "";
  return (
    <Fact name="Profile made">
      {at && `${moment(at)}, `}by coremlscope {version}
      {where}
    </Fact>
  );
}

function precisions(compute: Record<string, number>): string {
  const total = Object.values(compute).reduce((sum, value) => sum + value, 0);
  return Object.entries(compute)
    .map(([dtype, number]) => `${dtype} ${Math.round((number / total) * 100)} %`)
    .join(", ");
}

/** Measured times, planned costs and estimates for the chosen device, kept apart. */
function Tiles() {
  const { measurement, target, setting, estimate, placement } = useReport();
  if (!measurement && !target) return null;
  return (
    <div class="tiles">
      {measurement?.predict && <MeasuredTile title="Prediction" phase={measurement.predict} measurement={measurement} main />}
      {target && estimate && (
        <Tile
          title={`Prediction on ${target.device}`}
          value={duration(estimate.latency.value)}
          text={`${duration(estimate.latency.low)} – ${duration(estimate.latency.high)} (80 % interval); ${rateInWords(1 / estimate.latency.value, "prediction")}`}
          tag={<OriginTag origin="estimated" />}
          hint={`${target.os}, ${SETTING_NAMES[setting]}; ${basisText(estimate)}`}
          main
        />
      )}
      {placement && !(measurement && estimate) && <PlanTile />}
      {measurement?.load && <MeasuredTile title="Load" phase={measurement.load} measurement={measurement} />}
      {measurement?.compile && <MeasuredTile title="Compile" phase={measurement.compile} measurement={measurement} />}
    </div>
  );
}

function MeasuredTile(props: { title: string; phase: Phase; measurement: Measurement; main?: boolean }) {
  const { phase, measurement } = props;
  const { measuredBy } = useReport();
  const rate = props.main ? predictionsPerSecond(measurement) : null;
  return (
    <Tile
      title={props.title}
      value={duration(phase.statistics.median)}
      text={rate === null ? `median of ${phase.statistics.count}` : rateInWords(rate, "prediction")}
      tag={<OriginTag origin="measured" on={props.main ? measuredBy : undefined} />}
      hint={`Median of ${phase.statistics.count}, measured by ${measuredBy}`}
      main={props.main ?? false}
    />
  );
}

/** The planned cost on the chosen device, and where the operations go. */
function PlanTile() {
  const { placement, rows, target, setting } = useReport();
  if (!placement || !target) return null;
  const shares = unitShares(placement, plannedColumns(rows));
  const changes = plural(switches(placement.setting), "switch");
  const total = shares.reduce((sum, one) => sum + one.ops, 0);
  const where = shares.map((one) => `${one.ops} on ${one.unit ? `the ${UNIT_NAMES[one.unit]}` : "unknown units"}`).join(", ");
  return (
    <Tile
      title={`Planned cost on ${target.device}`}
      value={placement.totalMs === null ? plural(total, "operation") : duration(placement.totalMs / 1e3)}
      text={`operations: ${where}; ${changes}`}
      tag={<OriginTag origin="planned" />}
      hint={`${target.os}, ${SETTING_NAMES[setting]}: what Core ML's cost model says, which is not a latency`}
    />
  );
}

function Tile(props: { title: string; value: string; text: string; tag: ComponentChildren; hint: string; main?: boolean }) {
  return (
    <div class={props.main ? "tile tile-main" : "tile"} title={props.hint}>
      <div class="tile-title">{props.title}</div>
      <div class="tile-value">{props.value}</div>
      <div class="tile-text">{props.text}</div>
      {props.tag}
    </div>
  );
}
