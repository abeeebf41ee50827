import { useEffect } from "preact/hooks";
import type { Remedy } from "../../data/placement";
import type { Row } from "../../data/rows";
import { UNIT_NAMES, UNIT_SHORT } from "../../data/words";
import { useReport } from "../../report";
import { rulePage } from "../../site";
import { About } from "../../ui/about";
import { CopyButton } from "../../ui/copy";
import { useArguments } from "../../ui/modules";
import { OriginTag } from "../../ui/origin";
import { Attributes, Inputs, MilLine, Outputs } from "./arguments";
import { Costs, Kernel, Times, Work } from "./times";
import { WeightList } from "./weights";

/** The panel of the selected operation: everything that is known about it. It stays beside whatever was clicked. */
export function OperationPanel() {
  const { selected, rows, select } = useReport();
  const row = selected === null ? undefined : rows.byId.get(selected);
  const isOpen = row !== undefined;
  useEffect(() => {
    if (!isOpen) return undefined;
    const close = (event: KeyboardEvent) => {
      if (event.key === "Escape" && !event.defaultPrevented) select(null);
    };
    document.addEventListener("keydown", close);
    return () => document.removeEventListener("keydown", close);
  }, [isOpen, select]);
  return row ? <Detail key={row.id} row={row} /> : null;
}

function Detail(props: { row: Row }) {
  const { row } = props;
  const { select, placement, showOp } = useReport();
  const known = useArguments();
  const unit = row.column < 0 ? null : placement?.unit(row.column);
  const name = row.layer || row.name;
  return (
    <aside class="detail" aria-label={`Details of ${name}`}>
      <div class="detail-head">
        <h3>{name}</h3>
        <button type="button" class="quiet" aria-label="Close details" onClick={() => select(null)}>
          ✕
        </button>
      </div>
      <p class="detail-kind">
        <span class="op-type">{row.type}</span>
        {unit && <span class={`unit-name unit-${unit}`}>{UNIT_SHORT[unit]}</span>}
        <span class="dim">
          {row.layerType && `of the layer ${row.layerType}`}
          {row.kind === "inserted" && "inserted by Core ML"}
          {row.kind === "engine" && "added by the engine that measured"}
        </span>
      </p>
      <p class="detail-links">
        <code>{row.id}</code>
        <CopyButton label="Copy the id" text={() => row.id} />
        <CopyButton label="Copy link to this operation, with device, setting and filters" text={() => location.href}>
          Copy link
        </CopyButton>
        <button type="button" class="quiet" onClick={() => showOp(row.id)}>
          Show in table
        </button>
      </p>
      <Times row={row} />
      <Costs row={row} />
      {placement && row.column >= 0 && (
        <>
          <Reasons title="Why not elsewhere" reasons={placement.reasons(row.column)} />
          <Reasons title="What would help" reasons={placement.advice(row.column)} />
          <Reasons title="In doubt: anecdotal evidence, not applied" reasons={placement.doubts(row.column)} />
        </>
      )}
      <Kernel row={row} />
      {row.op >= 0 && (
        <>
          <Inputs given={known.given(row)} />
          <Outputs made={known.made(row)} />
          <Attributes pairs={known.attributes(row)} />
          <WeightList weights={known.weights(row)} />
          <Work row={row} />
          <MilLine text={known.milLine(row)} />
        </>
      )}
      {row.op < 0 && row.output && (
        <>
          <h4>Output</h4>
          <p class="mono">{row.output}</p>
        </>
      )}
    </aside>
  );
}

function Reasons(props: { title: string; reasons: Remedy[] }) {
  if (props.reasons.length === 0) return null;
  return (
    <>
      <h4>
        {props.title} <OriginTag origin="planned" />
      </h4>
      <ul class="reasons">
        {props.reasons.map((reason) => (
          <li key={`${reason.unit} ${reason.rule} ${reason.text}`}>
            <b>{UNIT_NAMES[reason.unit]}</b> {reason.text}
            {reason.fix && <div class="fix">→ {reason.fix}</div>}
            {reason.source && (
              <div class="faint reason-source">
                {reason.confidence}: {reason.source}
                {rulePage(reason.rule) && " · "}
                {rulePage(reason.rule) && <About id={reason.rule} page={rulePage(reason.rule)} />}
              </div>
            )}
          </li>
        ))}
      </ul>
    </>
  );
}
