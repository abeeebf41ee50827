import type { Costs } from "../../data/critical";
import type { Drawing } from "../../data/drawing";
import type { Part } from "../../data/folding";
import type { Switch } from "../../data/lanes";
import { duration, share } from "../../format";
import { useReport } from "../../report";
import { breakWords, type Looks } from "./look";
import { type Names, shortenName } from "./names";

const SLOWEST = 10;

/** Lists next to the graph that lead to its parts: the slowest ones, and every change of unit. */
export function Side(props: { drawing: Drawing; looks: Looks; names: Names; changes: readonly Switch[]; times: Costs | null }) {
  const { drawing, looks, names, changes, times } = props;
  const total = times?.whole ?? 0;
  const { rows, select } = useReport();
  const go = (part: Part | undefined) => {
    const row = part && drawing.rowsOf.get(part)?.[0];
    if (row) select(row.id);
  };
  const slowest = drawing.boxes
    .filter((part) => looks.of(part).seconds > 0)
    .sort((a, b) => looks.of(b).seconds - looks.of(a).seconds)
    .slice(0, SLOWEST);
  if (slowest.length === 0 && changes.length === 0) return null;
  return (
    <div class="graph-side">
      {changes.length > 0 && (
        <>
          <h3>Changes of unit</h3>
          <ol aria-label="Changes of unit">
            {changes.map((one) => (
              <li key={one.at}>
                <button type="button" class="link" onClick={() => select(one.id)}>
                  {breakWords([one])}
                </button>
                <span class="faint">{shortenName(rows.byId.get(one.id)?.name ?? "", 18)}</span>
              </li>
            ))}
          </ol>
        </>
      )}
      {slowest.length > 0 && (
        <>
          <h3>
            Slowest <span class="faint">{times?.origin}</span>
          </h3>
          <ol aria-label="The slowest parts">
            {slowest.map((part) => (
              <li key={part.id}>
                <button type="button" class="link" onClick={() => go(part)}>
                  {looks.of(part).times > 1 && `${looks.of(part).times} × `}
                  {shortenName(names.of(part), 20)}
                </button>
                <span>
                  {duration(looks.of(part).seconds)} <span class="faint">{share(looks.of(part).seconds / total)}</span>
                </span>
              </li>
            ))}
          </ol>
        </>
      )}
    </div>
  );
}
