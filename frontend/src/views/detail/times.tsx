import type { ComponentChildren } from "preact";
import type { Row } from "../../data/rows";
import type { Fp16Ranges, Status } from "../../data/schema";
import { ALLOWED, BOUND_WORDS, STATUS_WORDS, UNIT_NAMES } from "../../data/words";
import { bytes, cost, count, duration, plural, share } from "../../format";
import { useReport } from "../../report";
import { UnitMark } from "../../ui/mark";
import { OriginTag } from "../../ui/origin";
import { OpLink } from "./arguments";

function Item(props: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{props.name}</dt>
      <dd>{props.children}</dd>
    </div>
  );
}

/** Estimated, measured and planned times of an operation, or of the group that it belongs to. */
export function Times(props: { row: Row }) {
  const { row } = props;
  const { measurement, measuredBy, groups, kernels, placement, target, estimate } = useReport();
  const group = groups[row.group];
  const planned = row.column < 0 ? null : placement?.costMs(row.column);
  const weight = row.column < 0 ? null : placement?.weight(row.column);
  const seconds = estimate?.kernel_s[row.kernel];
  const fused = kernels[row.kernel]?.ops.length ?? 0;
  const bound = estimate?.kernel_bound[row.kernel];
  return (
    <dl>
      {seconds !== undefined && estimate && (
        <Item name={`On ${target?.device}`}>
          <b>{duration(seconds)}</b>, {share(seconds / estimate.latency.value)} of the latency
          {fused > 1 && ` for ${fused} operations together`}
          {bound && `, waits for ${BOUND_WORDS[bound]}`} <OriginTag origin="estimated" />
        </Item>
      )}
      {measurement && (group || row.status) && (
        <Item name="Measured">
          {group ? (
            <>
              <b>{duration(group.wall_s)}</b>
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
      {planned != null && (
        <Item name="Planned cost">
          <b>{cost(planned)}</b>
          {weight != null && `, ${share(weight)} of its graph`} <OriginTag origin="planned" />
        </Item>
      )}
    </dl>
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

/** Which units can run it, and what each of Core ML's implementations would cost. */
export function Costs(props: { row: Row }) {
  const { placement } = useReport();
  const { column } = props.row;
  if (!placement || column < 0) return null;
  const { plan } = placement;
  const chosen = placement.backendName(column);
  const backends = Object.entries(plan.backends).filter(([name]) => plan.ops.cost_ms[name]?.[column] != null);
  return (
    <>
      <h4>
        On each unit of {plan.device} <OriginTag origin="planned" />
      </h4>
      <ul class="unit-list">
        {(["cpu", "gpu", "neural_engine"] as const).map((unit) => (
          <li key={unit}>
            <UnitMark unit={unit} mark={placement.mark(column, unit)} /> {UNIT_NAMES[unit]}
            {placement.doubt(column, unit) && <span class="faint"> {placement.doubt(column, unit)}</span>}
          </li>
        ))}
      </ul>
      {backends.length > 0 && (
        <table class="costs">
          <tbody>
            {backends.map(([name, unit]) => (
              <tr key={name} class={name === chosen ? "strong" : ALLOWED[placement.name].includes(unit) ? "" : "faint"}>
                <th scope="row">{name}</th>
                <td>{UNIT_NAMES[unit]}</td>
                <td class="number">{cost(plan.ops.cost_ms[name]?.[column] ?? 0)}</td>
                <td class="faint">{plan.ops.bases[plan.ops.cost_basis[name]?.[column] ?? -1] ?? ""}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </>
  );
}

/** The operations that run together with it. */
export function Kernel(props: { row: Row }) {
  const { kernels, groups, rows, target } = useReport();
  const { row } = props;
  const fused = kernels[row.kernel]?.ops ?? [];
  const timed = groups[row.group]?.ops ?? [];
  const lists = [
    { title: `Fused on ${target?.device ?? "the device"}`, ops: fused, origin: "estimated" as const },
    { title: "Measured together", ops: timed, origin: "measured" as const },
  ].filter((one) => one.ops.length > 1);
  return (
    <>
      {lists.map((one) => (
        <div key={one.title}>
          <h4>
            {one.title} <OriginTag origin={one.origin} />
          </h4>
          <p class="op-links">
            {one.ops.slice(0, MOST).map((op) => {
              const member = rows.ops[op];
              return member && member !== row ? <OpLink key={op} row={member} /> : <b key={op}>{member?.layer || member?.name} </b>;
            })}
            {one.ops.length > MOST && `and ${plural(one.ops.length - MOST, "other")}`}
          </p>
        </div>
      ))}
    </>
  );
}

const MOST = 12;

/** FLOPs and bytes of an operation. */
export function Work(props: { row: Row }) {
  const { table } = useReport();
  const { op } = props.row;
  const [flops, read, written] = [table.flops[op], table.read_bytes[op], table.written_bytes[op]];
  const moved = (read ?? 0) + (written ?? 0);
  return (
    <>
      <h4>
        Work <OriginTag origin="declared" />
      </h4>
      <dl class="pairs">
        <Item name="FLOPs">
          {known(flops, table.work_is_complete[op], count)}
          {!!flops && moved > 0 && `, ${(flops / moved).toPrecision(3)} a byte`}
        </Item>
        <Item name="reads">{known(read, true, bytes)}</Item>
        <Item name="writes">{known(written, true, bytes)}</Item>
        <Item name="weights">{known(table.weight_bytes[op], true, bytes)}</Item>
        {table.live_bytes[op] != null && <Item name="live values">{bytes(table.live_bytes[op] ?? 0)}</Item>}
      </dl>
    </>
  );
}

function known(value: number | null | undefined, isComplete: boolean | undefined, format: (value: number) => string): string {
  return value == null ? "?" : `${isComplete ? "" : "≥ "}${format(value)}`;
}
