import type { ComponentChildren } from "preact";

/** A part of the page with a heading that others link to. */
export function Section(props: {
  id: string;
  title: string;
  /** Where the numbers come from, and the like. */
  note?: ComponentChildren;
  actions?: ComponentChildren;
  children: ComponentChildren;
}) {
  return (
    <section id={props.id} class="section" aria-labelledby={`${props.id}-title`}>
      <div class="section-head">
        <h2 id={`${props.id}-title`}>{props.title}</h2>
        {props.note && <div class="section-note">{props.note}</div>}
        {props.actions && <div class="section-actions">{props.actions}</div>}
      </div>
      {props.children}
    </section>
  );
}
