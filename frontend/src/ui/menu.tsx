/** A list of values of which one is selected, or all where none is needed. */
export function Menu(props: {
  label: string;
  value: string;
  onChange: (value: string) => void;
  options: readonly (readonly [string, string])[];
  isNeeded?: boolean;
}) {
  return (
    <label class={props.value && !props.isNeeded ? "menu menu-set" : "menu"}>
      <span>{props.label}</span>
      <select value={props.value} onChange={(event) => props.onChange(event.currentTarget.value)}>
        {!props.isNeeded && <option value="">all</option>}
        {props.options.map(([value, text]) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}
