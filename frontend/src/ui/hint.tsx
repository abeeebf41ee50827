/** A hint, whose commands stand between backticks. */
export function Hint(props: { text: string }) {
  return <>{props.text.split("`").map((part, index) => (index % 2 ? <code key={part}>{part}</code> : part))}</>;
}
