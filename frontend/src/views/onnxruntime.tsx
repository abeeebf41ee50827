import type { Figure, LeftNode, ProviderEstimate, ProviderReport, ProviderVerdict } from "../data/schema";
import { settingName } from "../data/words";
import { duration, plural } from "../format";
import { useReport } from "../report";
import { OriginTag } from "../ui/origin";
import { ScrollRegion } from "../ui/scroll";
import { Section } from "../ui/section";

const FORMATS: Record<string, string> = { neuralnetwork: "NeuralNetwork", mlprogram: "MLProgram" };
const OUTCOMES: Record<ProviderVerdict["outcome"], string> = {
  provider: "the provider",
  cpu: "the CPU provider",
  close: "too close to call",
  unknown: "unknown",
};

/** What ONNX Runtime's Core ML provider makes of an ONNX model. */
export function OnnxRuntime() {
  const { profile } = useReport();
  if (!profile) return null;
  return (
    <Section
      id="onnxruntime"
      title="ONNX Runtime"
      note={
        <>
          {profile.provider_verdicts.length > 0 && <OriginTag origin="estimated" />}
          <span>its Core ML provider, by its published rules</span>
        </>
      }
    >
      {profile.provider_verdicts.length > 0 && <Verdicts verdicts={profile.provider_verdicts} />}
      {profile.providers.map((report) => (
        <Division key={report.format} report={report} />
      ))}
    </Section>
  );
}

function Verdicts(props: { verdicts: readonly ProviderVerdict[] }) {
  return (
    <ScrollRegion label="ONNX Runtime's providers by device">
      <table class="plain">
        <thead>
          <tr>
            <th scope="col">Device</th>
            <th scope="col">Faster</th>
            <th scope="col">Core ML provider</th>
            <th scope="col">CPU provider</th>
            <th scope="col">Converted by coremltools</th>
          </tr>
        </thead>
        <tbody>
          {props.verdicts.map((one) => (
            <tr key={`${one.device} ${one.os}`}>
              <th scope="row">
                {one.device}, {one.os}
              </th>
              <td>{OUTCOMES[one.outcome]}</td>
              <td>
                {time(one.provider)}
                {one.provider && ` ${FORMATS[one.format]}, ${settingName(one.compute_units)}`}
              </td>
              <td>{time(one.cpu)}</td>
              <td>{time(one.converted)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </ScrollRegion>
  );
}

function Division(props: { report: ProviderReport }) {
  const { report } = props;
  const after = new Map(report.fixes.map((fix) => [fix.fix, fix]));
  return (
    <>
      <h3 class="findings-title">
        ModelFormat {FORMATS[report.format]}
        {report.is_default && ", ONNX Runtime's default"}
      </h3>
      <p>
        {plural(report.models, "Core ML model")}; {plural(report.inside, "operator")} in them, {report.outside} outside; ONNX Runtime{" "}
        {report.release}; graph {report.basis}
      </p>
      {report.hazards.map((one) => (
        <p key={one.id} class="banner">
          {one.text}: {one.fix}
        </p>
      ))}
      {report.left.length > 0 && (
        <ScrollRegion label={`Operators outside Core ML with ${FORMATS[report.format]}`}>
          <table class="plain">
            <thead>
              <tr>
                <th scope="col" class="number">
                  Count
                </th>
                <th scope="col">Operator</th>
                <th scope="col">Outside, because</th>
                <th scope="col">Fix</th>
                <th scope="col">Then</th>
              </tr>
            </thead>
            <tbody>
              {kinds(report.left).map(({ count, node }) => {
                const fix = after.get(node.fix);
                return (
                  <tr key={`${node.op} ${node.rule} ${node.reason}`}>
                    <td class="number">{count}</td>
                    <th scope="row" class="ops">
                      {node.op}
                    </th>
                    <td title={node.source}>{node.reason}</td>
                    <td>{node.fix}</td>
                    <td>
                      {fix && plural(fix.models, "model")}
                      {fix && fix.estimates.length > 0 && <>, {time(fastest(fix.estimates))}</>}
                    </td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </ScrollRegion>
      )}
      {report.notes.map((note) => (
        <p key={note} class="dim">
          {note}.
        </p>
      ))}
    </>
  );
}

/** The shortest time among those of devices and settings. */
function fastest(estimates: readonly ProviderEstimate[]): Figure {
  return estimates.map((one) => one.latency).reduce((best, one) => (one.value < best.value ? one : best));
}

/** The operators of each type that one rule keeps out, the most frequent first. */
function kinds(left: readonly LeftNode[]): { count: number; node: LeftNode }[] {
  const found = new Map<string, { count: number; node: LeftNode }>();
  for (const node of left) {
    const key = `${node.op} ${node.rule} ${node.reason}`;
    const kind = found.get(key);
    if (kind) kind.count += 1;
    else found.set(key, { count: 1, node });
  }
  return [...found.values()].sort((one, other) => other.count - one.count);
}

const time = (figure: Figure | null): string =>
  figure === null ? "unknown" : `${duration(figure.value)} (${duration(figure.low)} – ${duration(figure.high)})`;
