/** A link to a page of the documentation; the text alone where there is none. */
export function About(props: { id: string; page: string }) {
  if (!props.page) return <>{props.id}</>;
  return (
    <a href={props.page} target="_blank" rel="noopener noreferrer">
      {props.id}
    </a>
  );
}
