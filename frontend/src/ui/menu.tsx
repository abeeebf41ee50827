/** A list of values of which one, or all, is selected. */
export function Menu(props: { label: string; value: string; onChange: (value: string) => void; options: [string, string][] }) {
  return (
    <label class={props.value ? "menu menu-set" : "menu"}>
      <span>{props.label}</span>
      <select value={props.value} onChange={(event) => props.onChange(event.currentTarget.value)}>
        <option value="">all</option>
        {props.options.map(([value, text]) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}
