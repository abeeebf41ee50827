import type { ComponentChildren } from "preact";

/** A section of the page with a heading that links can target. */
export function Section(props: {
  id: string;
  title: string;
  /** Origin tags and other remarks beside the heading. */
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
