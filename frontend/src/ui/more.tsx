/** Shows all rows of a list of which only the first are shown, or those again; nothing where there are no more. */
export function More(props: { total: number; listed: number; isOpen: boolean; open: (isOpen: boolean) => void }) {
  if (props.total <= props.listed) return null;
  return (
    <button type="button" class="quiet more" aria-expanded={props.isOpen} onClick={() => props.open(!props.isOpen)}>
      {props.isOpen ? "Show fewer" : `Show all ${props.total}`}
    </button>
  );
}
