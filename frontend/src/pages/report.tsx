import type { ComponentChild } from "preact";
import type { Result } from "../payload";
import { type Report, ReportProvider, useReport } from "../report";
import { TopBar } from "../ui/topbar";
import { Findings } from "../views/findings";
import { Graph } from "../views/graph";
import { Header } from "../views/header";
import { Layers } from "../views/layers";
import { Memory } from "../views/memory";
import { Phases } from "../views/phases";
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
  { id: "times", title: "Times", applies: (report) => report.profile !== null, view: () => <Phases /> },
  {
    id: "findings",
    title: "Findings",
    applies: (report) => !!report.profile?.findings.length || report.placement !== null,
    view: () => <Findings />,
  },
  { id: "settings", title: "Units", applies: (report) => report.plans.length > 0, view: () => <Settings /> },
  { id: "layers", title: "Layers", applies: (report) => report.rows.all.length > 0, view: () => <Layers /> },
  { id: "types", title: "Types", applies: (report) => report.rows.all.length > 0, view: () => <Types /> },
  { id: "graph", title: "Graph", applies: (report) => !!report.table.inputs?.length, view: () => <Graph /> },
  {
    id: "timeline",
    title: "Timeline",
    applies: (report) => report.groups.length > 0 || report.placement !== null,
    view: () => <Timeline />,
  },
  {
    id: "roofline",
    title: "Roofline",
    applies: (report) => report.groups.length > 0 || report.placement !== null,
    view: () => <Roofline />,
  },
  { id: "memory", title: "Memory", applies: (report) => !!report.table.live_bytes?.some((size) => size), view: () => <Memory /> },
  { id: "weights", title: "Weights", applies: (report) => report.model.weights.length > 0, view: () => <Weights /> },
];

/** The page of a profile, or of a model without one. */
export function ReportPage(props: { result: Extract<Result, { schema: "coremlscope.profile/1" | "coremlscope.model/1" }> }) {
  return (
    <ReportProvider result={props.result}>
      <Views />
    </ReportProvider>
  );
}

function Views() {
  const report = useReport();
  const views = VIEWS.filter((view) => view.applies(report));
  return (
    <>
      <TopBar views={views} />
      <main>
        <Header />
        {views.map((view) => (
          <view.view key={view.id} />
        ))}
      </main>
    </>
  );
}
