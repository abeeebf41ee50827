import type { ComponentChildren } from "preact";
import type { DeviceLatency, Profile } from "../data/profile";
import { kindName, UNIT_NAMES } from "../data/words";
import { bytes, count, duration, fileName, plural, rateInWords } from "../format";
import { useReport } from "../report";
import { OriginTag } from "../ui/origin";

/** The model, its main figures and its facts. */
export function Header() {
  const { model, profile, plans } = useReport();
  const main = model.functions[0];
  return (
    <header class="report-head" id="top">
      <h1>{fileName(model.path)}</h1>
      {model.description && <p class="lead">{model.description}</p>}
      {profile && <Tiles />}
      {profile && plans.length === 0 && isPlanned(model.kind) && (
        <p class="caption dim">
          To see where Apple's devices would run this model and how fast, profile it with <code>--device m1,iphone-15-pro</code>
        </p>
      )}
      <dl class="facts">
        <Fact name="Model">
          {kindName(model.kind)} ({model.container}), {bytes(model.size_bytes)}
          {model.version && `, version ${model.version}`}
        </Fact>
        <Fact name="Needs">
          {model.platforms} (specification {model.spec_version}
          {main?.opset && `, ${main.opset}`})
        </Fact>
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
        <Interface title="Inputs" features={main?.inputs ?? []} />
        <Interface title="Outputs" features={main?.outputs ?? []} />
        <Interface title="States" features={main?.states ?? []} />
        {model.stages.length > 0 && (
          <Fact name="Stages">{model.stages.map((stage) => `${stage.name} (${kindName(stage.kind)})`).join(" → ")}</Fact>
        )}
        {model.facts?.map(([what, how]) => (
          <Fact name={`${what.charAt(0).toUpperCase()}${what.slice(1)}`} key={what}>
            {how}
          </Fact>
        ))}
        {profile && <HostFacts profile={profile} />}
        {(model.author || model.licence) && <Fact name="By">{[model.author, model.licence].filter(Boolean).join(", ")}</Fact>}
      </dl>
    </header>
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

function Interface(props: { title: string; features: { name: string; type: string; flexibility: string; preprocessing: string }[] }) {
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

function HostFacts(props: { profile: Profile }) {
  const { host, request } = props.profile;
  const many = request.function && request.function !== "main";
  return (
    <>
      {many && <Fact name="Function">{request.function}</Fact>}
      <Fact name="Measured on">
        {host.processor}, {plural(host.cores, "core")}, {host.os}
        {host.power_mode && `, ${host.power_mode}`}
      </Fact>
      <Fact name="Engine">
        {host.engine} {host.engine_version}, {plural(host.threads, "thread")}, {request.precision}
      </Fact>
    </>
  );
}

function precisions(compute: Record<string, number>): string {
  const total = Object.values(compute).reduce((sum, value) => sum + value, 0);
  return Object.entries(compute)
    .map(([dtype, number]) => `${dtype} ${Math.round((number / total) * 100)} %`)
    .join(", ");
}

/** Times measured on the host and estimated for devices, kept apart. */
function Tiles() {
  const { profile, plans, placement } = useReport();
  if (!profile) return null;
  const { predict, load, compile, host } = profile;
  const estimate = placement?.setting.estimate;
  const shown: DeviceLatency[] = plans.length ? [] : profile.estimates;
  return (
    <div class="tiles">
      <Tile
        title="Prediction"
        value={duration(predict.statistics.median)}
        text={rateInWords(profile.predictions_per_s, "prediction")}
        tag={<OriginTag origin="measured" on="the host" />}
        hint={`Median of ${predict.statistics.count}, on ${host.label}`}
        main
      />
      {placement && estimate && (
        <Tile
          title={`Prediction on ${placement.plan.device}`}
          value={duration(estimate.latency.value)}
          text={`${duration(estimate.latency.low)} – ${duration(estimate.latency.high)} (80 % interval); ${rateInWords(1 / estimate.latency.value, "prediction")}`}
          tag={<OriginTag origin="estimated" />}
          hint={`${placement.plan.os}, ${placement.name}; ${estimate.basis}`}
          main
        />
      )}
      {shown.map((one) => (
        <Tile
          key={one.device}
          title={`Prediction on ${one.device}`}
          value={duration(one.latency.value)}
          text={`${duration(one.latency.low)} – ${duration(one.latency.high)} (80 % interval); mostly on the ${UNIT_NAMES[mainUnit(one)]}`}
          tag={<OriginTag origin="estimated" />}
          hint={`${one.os}, ${one.compute_units}; ${one.basis}`}
        />
      ))}
      <Tile
        title="Load"
        value={duration(load.statistics.median)}
        text={`median of ${load.statistics.count}`}
        tag={<OriginTag origin="measured" on="the host" />}
        hint={host.label}
      />
      <Tile
        title="Compile"
        value={duration(compile.statistics.median)}
        text={`median of ${compile.statistics.count}, cold`}
        tag={<OriginTag origin="measured" on="the host" />}
        hint={host.label}
      />
    </div>
  );
}

function mainUnit(latency: DeviceLatency): "cpu" | "gpu" | "neural_engine" {
  const parts = Object.entries(latency.placement) as ["cpu" | "gpu" | "neural_engine", number][];
  return parts.sort((a, b) => b[1] - a[1])[0]?.[0] ?? "cpu";
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
