import type { Given, Made } from "../../data/arguments";
import type { Row } from "../../data/rows";
import { compactType, plural } from "../../format";
import { useReport } from "../../report";
import { CopyButton } from "../../ui/copy";

/** Readers beyond this number are counted only. */
const MOST = 12;

/** A link that shows another operation in the panel. */
export function OpLink(props: { row: Row; children?: string }) {
  const { select } = useReport();
  const { row } = props;
  return (
    <button type="button" class="link" title={`${row.type} (${row.id})`} onClick={() => select(row.id)}>
      {props.children ?? (row.layer || row.name)}
    </button>
  );
}

/** The values that an operation reads and where they come from. */
export function Inputs(props: { given: Given[] }) {
  const given = props.given.filter((one) => one.weight < 0);
  if (given.length === 0) return null;
  return (
    <>
      <h4>Inputs</h4>
      <dl class="ports">
        {given.map((one, place) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: a parameter may be given the same value twice.
          <div key={place}>
            <dt>{one.parameter || "reads"}</dt>
            <dd>
              {one.maker ? <OpLink row={one.maker}>{one.name || one.maker.name}</OpLink> : <b>{one.name}</b>}{" "}
              <span class="mono dim">{compactType(one.type)}</span>
              <div class="faint">{one.maker ? `made by ${one.maker.type}` : "an input"}</div>
            </dd>
          </div>
        ))}
      </dl>
    </>
  );
}

/** The results of an operation and the operations that read them. */
export function Outputs(props: { made: Made[] }) {
  if (props.made.length === 0) return null;
  return (
    <>
      <h4>{props.made.length > 1 ? "Outputs" : "Output"}</h4>
      <dl class="ports">
        {props.made.map((one, place) => (
          <div key={one.name || place}>
            <dt class="mono">{compactType(one.type)}</dt>
            <dd>
              <b>{one.name}</b>
              <div class="faint">
                {one.readers.length === 0 ? "read by no other operation" : "read by "}
                {one.readers.slice(0, MOST).map((row) => (
                  <OpLink key={row.id} row={row} />
                ))}
                {one.readers.length > MOST && `and ${plural(one.readers.length - MOST, "other")}`}
              </div>
            </dd>
          </div>
        ))}
      </dl>
    </>
  );
}

/** The constants of an operation. */
export function Attributes(props: { pairs: [string, string][] }) {
  if (props.pairs.length === 0) return null;
  return (
    <>
      <h4>Attributes</h4>
      <dl class="pairs">
        {props.pairs.map(([name, text], place) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: a variadic parameter occurs several times.
          <div key={place}>
            <dt>{name}</dt>
            <dd class="mono">{text}</dd>
          </div>
        ))}
      </dl>
    </>
  );
}

/** The operation as in MIL text. */
export function MilLine(props: { text: string }) {
  if (!props.text) return null;
  return (
    <>
      <h4>
        MIL <CopyButton label="Copy the line of MIL" text={() => props.text} />
      </h4>
      <pre class="mil">{props.text}</pre>
    </>
  );
}
