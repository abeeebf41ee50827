import type { ComponentChildren } from "preact";

/** How a verdict is coloured: `kept` green, `doubt` amber, `wrong` red. */
export type Tone = "kept" | "doubt" | "wrong";

const SIGNS: Record<Tone, string> = { kept: "✓", doubt: "!", wrong: "✕" };

/** What a result begins with, as `Conclusion` of `reports/document.py`. */
export interface Conclusion {
  tone: Tone;
  word: string;
  text: string;
}

/** The conclusions that pages have next to a result that is not a profile. */
export const Conclusions = (props: { of: object }) => (
  <>
    {(props.of as { conclusions?: Conclusion[] }).conclusions?.map(({ tone, word, text }) => (
      <Strip key={text} tone={tone} word={word}>
        {text}
      </Strip>
    ))}
  </>
);

/** The verdict that a page begins with: a colour and its word, a sentence, and what to copy. */
export function Strip(props: {
  tone: Tone;
  word: string;
  figure?: ComponentChildren;
  children: ComponentChildren;
  actions?: ComponentChildren;
}) {
  return (
    <div class={`strip strip-${props.tone}`}>
      {props.figure}
      <b class="strip-word">
        <span aria-hidden="true">{SIGNS[props.tone]}</span> {props.word}
      </b>
      <p class="strip-text">{props.children}</p>
      {props.actions}
    </div>
  );
}
