import type { Mistake, TraceForm } from "../../data/schema";
import { duration } from "../../format";
import { CopyButton } from "../../ui/copy";
import { Section } from "../../ui/section";

/** The mistakes that the recording shows, the costliest first. */
export function Mistakes(props: { form: TraceForm }) {
  const { form } = props;
  return (
    <Section
      id="mistakes"
      title={form.mistakes.length ? "Mistakes" : form.searched.length ? "No mistakes found" : "Not searched for mistakes"}
      actions={
        form.mistakes.length > 0 && (
          <CopyButton label="Copy the mistakes as text" text={() => form.mistakes.map((one) => toText(form, one)).join("\n")} />
        )
      }
    >
      {form.mistakes.length > 0 && (
        <ul class="findings">
          {form.mistakes.map((one) => (
            <li key={`${one.id} ${one.site} ${one.title}`} class={`finding finding-${one.severity}`}>
              <span class="severity">{one.severity === "warning" ? "Warning" : "Note"}</span>
              <div>
                <b>{one.title}</b> <code>{place(form, one)}</code>
                <div>{one.evidence}</div>
                <div class="fix">
                  → {one.fix}
                  {one.gain_s ? ` It costs ${duration(one.gain_s)}.` : ""}
                  {one.shared_s ? ` ${duration(one.shared_s)} more are counted with costlier ones.` : ""}
                </div>
              </div>
            </li>
          ))}
        </ul>
      )}
    </Section>
  );
}

/** `app.py:12 in load`; empty if the line is unknown. */
function place(form: TraceForm, one: Mistake): string {
  const site = form.sites[one.site];
  if (!site) return "";
  const named = site.function && site.function !== "<module>" ? ` in ${site.function}` : "";
  return `${site.file.split(/[\\/]/).at(-1)}:${site.line}${named}`;
}

const toText = (form: TraceForm, one: Mistake) => `${place(form, one)}: ${one.title}. ${one.evidence} → ${one.fix}`;
