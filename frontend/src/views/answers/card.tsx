import type { ComponentChildren } from "preact";

/** A card of the first screen, which answers one question. */
export function Card(props: { id: string; question: string; tags?: ComponentChildren; children: ComponentChildren }) {
  return (
    <section class={`card card-${props.id}`} aria-labelledby={`answer-${props.id}`}>
      <div class="card-head">
        <h2 id={`answer-${props.id}`}>{props.question}</h2>
        {props.tags}
      </div>
      {props.children}
    </section>
  );
}
