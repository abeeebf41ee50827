import type { ComponentChildren } from "preact";
import { conditionsText } from "../data/profile";
import type { FeatureSummary, Machine, Measurement, ModelSummary, Provenance } from "../data/schema";
import { toMarkdown } from "../data/summary";
import { kindName, settingName } from "../data/words";
import { bytes, count, fileName, moment, plural } from "../format";
import { useReport } from "../report";
import { CopyButton } from "../ui/copy";
import { FileTitle } from "../ui/file";
import { OriginTag } from "../ui/origin";
import { Section } from "../ui/section";
import { Answers } from "./answers";

/** The model's name, what it is in a line, and the answers; for a model without a profile, its facts. */
export function Header() {
  const report = useReport();
  const { model, profile, answer } = report;
  return (
    <header class="report-head" id="top">
      <div class="report-title">
        <h1>
          <FileTitle name={fileName(model.path)} />
        </h1>
        {profile && model.kind && (
          <CopyButton label="Copy summary as Markdown" text={() => toMarkdown(report, summary(model), answer)}>
            Copy<span class="roomy"> summary</span>
          </CopyButton>
        )}
      </div>
      <p class="lead lead-line">
        {model.kind ? summary(model) : "This model could not be read; the findings say why."}
        <Lacks />
      </p>
      {profile ? <Answers /> : <Facts />}
    </header>
  );
}

/** What the file lacks, and whether it could not be measured, as badges. */
function Lacks() {
  const { model, profile } = useReport();
  const { missing_weights: missing, short_weights: short, absent } = model;
  const failure = profile?.measurements.length === 0 ? profile.findings.find((one) => one.id === "not-measured")?.text : undefined;
  const lacks: [text: string, why: string][] = [
    ["weights missing", missing.join(", ")],
    ["weights truncated", short.length > 0 ? `${short.join(", ")}: the file is too short; download it again` : ""],
    ["cannot be run here", absent],
    ["not measured", failure ?? ""],
  ];
  return <>{lacks.map(([text, why]) => why && <LackBadge key={text} text={text} why={why} />)}</>;
}

function LackBadge(props: { text: string; why: string }) {
  return (
    <>
      {" "}
      <span class="badge" title={props.why}>
        {props.text}
      </span>
    </>
  );
}

/** `ML Program, 7.10 MB, 3.49 M parameters, …`. */
function summary(model: ModelSummary): string {
  const main = model.functions[0];
  const { flops, is_complete: isComplete = true } = main?.work ?? {};
  const first = [
    `${kindName(model.kind)}, ${bytes(model.size_bytes)}`,
    model.parameters > 0 && `${count(model.parameters)} parameters`,
    main && mainPrecision(main.compute),
    flops && `${isComplete ? "" : "at least "}${count(flops)} FLOPs`,
  ];
  return first.filter(Boolean).join(" · ");
}

/** What the model is, what it needs, and the machine of the measurement. */
export function ModelFacts() {
  return (
    <Section id="model" title="Model">
      <Facts />
    </Section>
  );
}

function Facts() {
  const { model, profile, measurement } = useReport();
  const main = model.functions[0];
  return (
    <>
      {model.description && <p class="lead">{model.description}</p>}
      <dl class="facts">
        <FileFacts />
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
    </>
  );
}

/** What the file is and what it declares. */
function FileFacts() {
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
    .map(([dtype, number]) => `${dtype} ${number / total < 0.005 ? "< 1" : Math.round((number / total) * 100)} %`)
    .join(", ");
}

/** The type that most operations compute in: `mostly fp16`. */
function mainPrecision(compute: Record<string, number>): string {
  const [first] = Object.entries(compute).sort((a, b) => b[1] - a[1]);
  return first ? `${Object.keys(compute).length > 1 ? "mostly " : ""}${first[0]}` : "";
}
