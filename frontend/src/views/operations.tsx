import { plural } from "../format";
import { useReport } from "../report";

/** Links that are listed of operations. */
const LISTED = 3;

/** How many operations a cause has, as a link to the layer table with just these, and links to the first ones. */
export function Operations(props: { ids: readonly string[]; cause: string }) {
  const { rows, showOnly, showOp } = useReport();
  const known = props.ids.flatMap((id) => rows.byId.get(id) ?? []);
  if (known.length === 0) return null;
  return (
    <div class="ops">
      <button type="button" class="link ops-count" onClick={() => showOnly({ cause: props.cause })}>
        {plural(known.length, "operation")}
      </button>
      {known.slice(0, LISTED).map((row) => (
        <button key={row.id} type="button" class="link" onClick={() => showOp(row.id)}>
          {row.layer || row.name}
        </button>
      ))}
    </div>
  );
}
