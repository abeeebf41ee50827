import type { ComponentChild } from "preact";
import type { Result } from "../payload";
import { ReportProvider, useReport, type Report } from "../report";
import { TopBar } from "../ui/topbar";
import { Header } from "../views/header";
import { Layers } from "../views/layers";
import { Phases } from "../views/phases";

/** A part of the page. Another view is one file in `views/` and one line in `VIEWS`. */
interface View {
  /** The `id` that its `Section` has. */
  id: string;
  title: string;
  /** Whether the report holds what it shows. */
  applies: (report: Report) => boolean;
  view: () => ComponentChild;
}

const VIEWS: readonly View[] = [
  { id: "times", title: "Times", applies: (report) => report.profile !== null, view: () => <Phases /> },
  { id: "layers", title: "Layers", applies: (report) => report.rows.all.length > 0, view: () => <Layers /> },
];

/** The page of a profile, or of a model that was only looked at. */
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
