import type { ComponentChild, ComponentChildren } from "preact";
import { useContext, useErrorBoundary, useState } from "preact/hooks";
import { covers } from "../data/profile";
import type { ModelForm, ProfileForm } from "../data/schema";
import { type Report, ReportProvider, useReport } from "../report";
import { Section } from "../ui/section";
import { Agreements } from "../views/agreement";
import { BusyUnits } from "../views/busy";
import { OperationPanel } from "../views/detail";
import { EnergyUse } from "../views/energy";
import { EstimateTerms } from "../views/estimate";
import { Findings } from "../views/findings";
import { Generation } from "../views/generation";
import { Graph } from "../views/graph";
import { Header, ModelFacts } from "../views/header";
import { Layers } from "../views/layers";
import { Memory } from "../views/memory";
import { Metadata } from "../views/metadata";
import { NextSteps } from "../views/next-steps";
import { OnnxRuntime } from "../views/onnxruntime";
import { OtherDevice } from "../views/other-device";
import { Phases } from "../views/phases";
import { InputPreview } from "../views/preview";
import { Predicting } from "../views/preview/predicting";
import { ReportBar } from "../views/report-bar";
import { Roofline } from "../views/roofline";
import { Settings } from "../views/settings";
import { Timeline } from "../views/timeline";
import { Types } from "../views/types";
import { Weights } from "../views/weights";

/** A section of the page. A new view is one file in `views/` and one line in `VIEWS`. */
interface View {
  /** The `id` of its `Section`. */
  id: string;
  title: string;
  /** Whether the report has the data for it. */
  applies: (report: Report) => boolean;
  view: () => ComponentChild;
}

const VIEWS: readonly View[] = [
  {
    id: "findings",
    title: "Findings",
    applies: (report) => report.findings.length > 0 || report.placement !== null,
    view: () => <Findings />,
  },
  {
    id: "settings",
    title: "Units",
    applies: ({ targets }) => targets.some(({ plan, estimates }) => estimates.size > 0 || (plan !== null && covers(plan))),
    view: () => <Settings />,
  },
  { id: "times", title: "Times", applies: (report) => report.measurement !== null, view: () => <Phases /> },
  { id: "busy", title: "Busy units", applies: (report) => !!report.measurement?.recording, view: () => <BusyUnits /> },
  { id: "energy", title: "Energy", applies: (report) => !!report.measurement?.energy, view: () => <EnergyUse /> },
  { id: "estimate", title: "Estimate", applies: (report) => report.estimate !== null, view: () => <EstimateTerms /> },
  {
    id: "generation",
    title: "Tokens",
    applies: (report) => !!(report.profile?.rates.length || report.profile?.token_timings.length),
    view: () => <Generation />,
  },
  {
    id: "agreement",
    title: "Agreement",
    applies: (report) => !!report.profile?.agreements.length,
    view: () => <Agreements />,
  },
  {
    id: "onnxruntime",
    title: "ONNX Runtime",
    applies: (report) => !!report.profile?.providers.length,
    view: () => <OnnxRuntime />,
  },
  { id: "layers", title: "Layers", applies: (report) => report.rows.all.length > 0, view: () => <Layers /> },
  { id: "types", title: "Types", applies: hasSeveral, view: () => <Types /> },
  { id: "graph", title: "Graph", applies: hasEdges, view: () => <Graph /> },
  {
    id: "timeline",
    title: "Timeline",
    applies: (report) => hasSeveral(report) && hasTimes(report),
    view: () => <Timeline />,
  },
  {
    id: "roofline",
    title: "Roofline",
    applies: (report) => hasSeveral(report) && hasTimes(report),
    view: () => <Roofline />,
  },
  {
    id: "memory",
    title: "Memory",
    applies: (report) => hasSeveral(report) && report.table.live_bytes.some((size) => size),
    view: () => <Memory />,
  },
  { id: "weights", title: "Weights", applies: (report) => report.model.weights.length > 0, view: () => <Weights /> },
  {
    id: "metadata",
    title: "Metadata",
    applies: ({ model }) => Object.keys(model.user_defined).length > 0 || model.labels !== null,
    view: () => <Metadata />,
  },
  { id: "model", title: "Model", applies: (report) => report.profile !== null, view: () => <ModelFacts /> },
];

const PREVIEW: View = { id: "preview", title: "Preview", applies: () => true, view: () => <InputPreview /> };

/** Whether there is more than one operation to compare with others; a tree ensemble is one. */
function hasSeveral(report: Report): boolean {
  return report.rows.all.length > 1;
}

/** Whether operations of one function read each other's values; stages of a pipeline may be one operation each. */
function hasEdges({ table }: Report): boolean {
  return table.inputs.some((inputs, reader) => inputs?.some((maker) => table.function[maker] === table.function[reader]));
}

/** Whether groups of operations are timed or estimated. */
function hasTimes(report: Report): boolean {
  return report.groups.length > 0 || !!report.estimate?.kernel_s.length;
}

/** The page of a profile, or of a model without one. */
export function ReportPage(props: {
  result: ProfileForm | ModelForm;
  back?: ComponentChildren;
  /** The chips that devices can be chosen from. */
  chips?: readonly [id: string, name: string][] | undefined;
}) {
  return (
    <ReportProvider result={props.result}>
      <Views back={props.back} chips={props.chips ?? []} />
    </ReportProvider>
  );
}

function Views(props: { back: ComponentChildren; chips: readonly [string, string][] }) {
  const report = useReport();
  // A prediction needs what runs the model.
  const runs = useContext(Predicting) !== null;
  const views = [...(runs ? [PREVIEW] : []), ...VIEWS.filter((view) => view.applies(report))];
  const [wanted, want] = useState<string | null>(null);
  return (
    <>
      <ReportBar views={views} back={props.back} chips={props.chips} onWant={want} />
      <main>
        {wanted && <OtherDevice chip={wanted} onClose={() => want(null)} />}
        <Header />
        <NextSteps chips={props.chips} />
        {views.map((view) => (
          <Guarded key={view.id} view={view} />
        ))}
      </main>
      <OperationPanel />
    </>
  );
}

/** A view; if it fails, a sentence takes its place and the others stay. */
function Guarded(props: { view: View }) {
  const [error] = useErrorBoundary();
  const { id, title, view: Content } = props.view;
  if (error === undefined) return <Content />;
  return (
    <Section id={id} title={title}>
      <p class="banner" role="alert">
        This part cannot be shown: {error instanceof Error ? error.message : String(error)}
      </p>
    </Section>
  );
}
