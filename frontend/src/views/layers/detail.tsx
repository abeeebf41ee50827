import type { ComponentChildren } from "preact";
import type { Remedy } from "../../data/placement";
import type { Row } from "../../data/rows";
import type { Fp16Ranges, Status } from "../../data/schema";
import { BOUND_WORDS, STATUS_WORDS, UNIT_NAMES } from "../../data/words";
import { bytes, count, duration, share } from "../../format";
import { useReport } from "../../report";
import { CopyButton } from "../../ui/copy";
import { UnitMark } from "../../ui/mark";
import { OriginTag } from "../../ui/origin";

/** All that is known about one operation. */
export function Detail(props: { row: Row; onClose: () => void }) {
  const { row } = props;
  const { placement, table } = useReport();
  return (
    <aside class="detail" aria-label={`Details of ${row.layer || row.name}`}>
      <div class="detail-head">
        <h3>{row.layer || row.name}</h3>
        <button type="button" class="quiet" aria-label="Close details" onClick={props.onClose}>
          ✕
        </button>
      </div>
      <dl>
        <Item name="Type">
          {row.type}
          {row.layerType && ` of the layer ${row.layerType}`}
          {row.kind === "inserted" && ", inserted by Core ML"}
          {row.kind === "engine" && ", added by the engine that measured"}
        </Item>
        {row.layer && row.name !== row.layer && <Item name="Operation">{row.name}</Item>}
        <Item name="Id">
          <code>{row.id}</code> <CopyButton label="Copy the id" text={() => row.id} />{" "}
          <CopyButton label="Copy link to this operation, with device, setting and filters" text={() => location.href}>
            Copy link
          </CopyButton>
        </Item>
        {row.output && <Item name="Output">{row.output}</Item>}
        {row.op >= 0 && (
          <Item name="Work">
            {known(table.flops[row.op], table.work_is_complete[row.op], count)} FLOPs; reads {known(table.read_bytes[row.op], true, bytes)},
            writes {known(table.written_bytes[row.op], true, bytes)}, weights {known(table.weight_bytes[row.op], true, bytes)}{" "}
            <OriginTag origin="declared" />
          </Item>
        )}
        <Times row={row} />
        {row.op >= 0 && table.inputs[row.op] && <Inputs row={row} />}
      </dl>
      {placement && row.column >= 0 && (
        <>
          <h4>
            On {placement.plan.device} <OriginTag origin="planned" />
          </h4>
          <ul class="unit-list">
            {(["cpu", "gpu", "neural_engine"] as const).map((unit) => (
              <li key={unit}>
                <UnitMark unit={unit} mark={placement.mark(row.column, unit)} /> {UNIT_NAMES[unit]}
              </li>
            ))}
          </ul>
          <Reasons title="Why not elsewhere" reasons={placement.reasons(row.column)} />
          <Reasons title="What would help" reasons={placement.advice(row.column)} />
          <Reasons title="In doubt: known by anecdote, not applied" reasons={placement.doubts(row.column)} />
        </>
      )}
    </aside>
  );
}

function Item(props: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{props.name}</dt>
      <dd>{props.children}</dd>
    </div>
  );
}

function Times(props: { row: Row }) {
  const { row } = props;
  const { measurement, measuredBy, groups, kernels, placement, target, estimate } = useReport();
  const group = groups[row.group];
  const cost = row.column < 0 ? null : placement?.costMs(row.column);
  const weight = row.column < 0 ? null : placement?.weight(row.column);
  const seconds = estimate?.kernel_s[row.kernel];
  const fused = kernels[row.kernel]?.ops.length ?? 0;
  const bound = estimate?.kernel_bound[row.kernel];
  return (
    <>
      {measurement && (group || row.status) && (
        <Item name="Measured">
          {group ? (
            <>
              {duration(group.wall_s)}
              {group.share !== null && `, ${share(group.share)} of all`}
              {group.ops.length > 1 && ` for ${group.ops.length} operations together (${group.label})`}{" "}
              <OriginTag origin="measured" on={measuredBy} />
            </>
          ) : (
            statusWords(row.status)
          )}
        </Item>
      )}
      {row.op >= 0 && measurement?.fp16 && <Fp16 ranges={measurement.fp16} op={row.op} />}
      {cost != null && (
        <Item name="Planned cost">
          {duration(cost / 1e3)}
          {weight != null && `, ${share(weight)} of its graph`} <OriginTag origin="planned" />
        </Item>
      )}
      {seconds !== undefined && estimate && (
        <Item name={`On ${target?.device}`}>
          {duration(seconds)}
          {fused > 1 && ` for ${fused} operations together`}
          {bound && `, bound by ${BOUND_WORDS[bound]}`} <OriginTag origin="estimated" />
        </Item>
      )}
    </>
  );
}

/** The range of its results where the prediction was rounded to fp16. */
function Fp16(props: { ranges: Fp16Ranges; op: number }) {
  const { ranges, op } = props;
  const largest = ranges.largest[op];
  if (largest == null) return null;
  const bad = (["overflows", "infinities", "nans"] as const).filter((name) => ranges[name][op]);
  const words = bad.map((name) => `${ranges[name][op]} ${FP16_WORDS[name]}`).join(", ");
  return (
    <Item name="In fp16">
      largest {largest.toPrecision(4)} of 65504{words && `; ${words}`}
    </Item>
  );
}

const FP16_WORDS = { overflows: "became infinite", infinities: "infinite before", nans: "not a number" };

const statusWords = (status: string): string => (status in STATUS_WORDS ? STATUS_WORDS[status as Status] : "not measured");

function Inputs(props: { row: Row }) {
  const { table, rows, select } = useReport();
  const makers = (table.inputs[props.row.op] ?? []).map((index) => rows.ops[index]).filter((row) => !!row);
  if (makers.length === 0) return null;
  return (
    <Item name="Reads from">
      {makers.map((row) => (
        <button type="button" class="link" key={row.id} onClick={() => select(row.id)}>
          {row.name}
        </button>
      ))}
    </Item>
  );
}

function Reasons(props: { title: string; reasons: Remedy[] }) {
  if (props.reasons.length === 0) return null;
  return (
    <>
      <h4>{props.title}</h4>
      <ul class="reasons">
        {props.reasons.map((reason) => (
          <li key={`${reason.unit} ${reason.rule} ${reason.text}`}>
            <b>{UNIT_NAMES[reason.unit]}</b> {reason.text}
            {reason.fix && <div class="fix">→ {reason.fix}</div>}
          </li>
        ))}
      </ul>
    </>
  );
}

function known(value: number | null | undefined, isComplete: boolean | undefined, format: (value: number) => string): string {
  return value == null ? "?" : `${isComplete ? "" : "≥ "}${format(value)}`;
}
