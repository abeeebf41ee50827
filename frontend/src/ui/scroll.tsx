import type { ComponentChildren } from "preact";

/** A region that scrolls sideways where its content is wider than the page. */
export function ScrollRegion(props: { label: string; children: ComponentChildren }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard.
    <section class="scroll-x" tabIndex={0} aria-label={props.label}>
      {props.children}
    </section>
  );
}
