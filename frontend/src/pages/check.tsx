import type { CheckedModel, GateForm, Verdict } from "../data/schema";
import { bytes, fileName } from "../format";
import { Hint } from "../ui/hint";
import { ScrollRegion } from "../ui/scroll";
import { Section } from "../ui/section";
import { TopBar } from "../ui/topbar";

const MARKS: Record<Verdict, string> = { pass: "✓", uncertain: "~", fail: "✗", unknown: "?" };

/** The page of models that were checked against limits. */
export function CheckPage(props: { result: GateForm }) {
  const { result } = props;
  return (
    <>
      <TopBar brand="Limits" />
      <main>
        <header class="report-head" id="top">
          <h1>
            {result.passed ? "✓" : "✗"} {result.summary}
          </h1>
          <p class="lead">An uncertain limit is kept by the figure, and not by the whole of its interval.</p>
        </header>
        {result.models.map((model, index) => (
          <Model model={model} id={`model-${index}`} strict={result.strict} key={model.path} />
        ))}
      </main>
    </>
  );
}

function Model(props: { model: CheckedModel; id: string; strict: boolean }) {
  const { model, id, strict } = props;
  return (
    <Section id={id} title={fileName(model.path)} note={model.size_bytes === null ? null : <span>{bytes(model.size_bytes)}</span>}>
      {model.failure && (
        <p>
          ✗ {model.failure}: {model.hint}
        </p>
      )}
      {model.checks.length > 0 && (
        <ScrollRegion label={`Limits of ${fileName(model.path)}`}>
          <table class="plain">
            <thead>
              <tr>
                <th scope="col">Result</th>
                <th scope="col" class="limit">
                  Limit
                </th>
                <th scope="col">Found</th>
              </tr>
            </thead>
            <tbody>
              {model.checks.map((check) => (
                <tr key={`${check.kind} ${check.subject}`}>
                  <th scope="row" class={`nowrap result verdict-${check.verdict}`}>
                    {MARKS[check.verdict]} {check.verdict}
                    {check.verdict === "uncertain" && strict && ", fails"}
                  </th>
                  <td class="nowrap limit">{check.kind}</td>
                  <td class="found">
                    {check.text}
                    {check.hint && (
                      <div class="dim">
                        → <Hint text={check.hint} />
                      </div>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </ScrollRegion>
      )}
    </Section>
  );
}
