import { useEffect, useState } from "preact/hooks";
import type { TraceForm } from "../data/schema";
import { type Recorded, readTrace } from "../data/trace";
import { duration } from "../format";
import { Conclusions } from "../ui/strip";
import { TopBar } from "../ui/topbar";
import { Lanes } from "../views/program/lanes";
import { Mistakes } from "../views/program/mistakes";
import { Operations } from "../views/program/operations";
import { Totals } from "../views/program/totals";

/** The page of a recorded program: mistakes, lanes, totals. */
export function TracePage(props: { result: TraceForm }) {
  const { result: form } = props;
  const [recorded, setRecorded] = useState<Recorded | string | null>(null);
  const [span, select] = useState<readonly [number, number] | null>(null);
  const [group, choose] = useState<number | null>(null);
  useEffect(() => {
    readTrace(form).then(setRecorded, (error) => setRecorded(`The events cannot be read: ${error}`));
  }, [form]);
  return (
    <>
      <TopBar
        brand="Recorded program"
        parts={[
          { id: "mistakes", title: "Mistakes" },
          { id: "lanes", title: "Lanes" },
          { id: "totals", title: "Totals" },
        ]}
      />
      <main>
        <Head form={form} />
        <Mistakes form={form} />
        {recorded === null && <p class="dim">Reading the events …</p>}
        {typeof recorded === "string" && <p role="alert">{recorded}</p>}
        {recorded !== null && typeof recorded !== "string" && (
          <>
            <Lanes recorded={recorded} span={span} select={select} group={group} />
            <Totals recorded={recorded} span={span} group={group} choose={choose} />
            <Operations recorded={recorded} span={span} group={group} />
          </>
        )}
      </main>
    </>
  );
}

function Head({ form }: { form: TraceForm }) {
  const facts = [["length", duration(form.duration_ns / 1e9)] as const, ...form.facts];
  return (
    <header class="report-head" id="top">
      <h1>{form.command.join(" ") || "Recorded program"}</h1>
      <Conclusions of={form} />
      <p class="lead">
        <span class="origin origin-measured">measured{form.host && ` on ${form.host}`}</span>
      </p>
      <dl class="facts">
        {facts
          .filter(([, value]) => value)
          .map(([name, value]) => (
            <div key={name} class="fact">
              <dt>{capitalised(name)}</dt>
              <dd>{value}</dd>
            </div>
          ))}
      </dl>
    </header>
  );
}

const capitalised = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);
