import type { Refusal } from "../opening/answers";

/** Why something was not done, and what helps. */
export function Problem(props: Refusal) {
  return (
    <div class="banner" role="alert">
      <p>{props.error}</p>
      {props.hint && <p>→ {props.hint}</p>}
    </div>
  );
}
