import type { ComponentChildren } from "preact";
import { COST_RULE, type Remedy } from "../../data/placement";
import { idsOf, type Row } from "../../data/rows";
import { BOUND_WORDS, UNIT_SHORT } from "../../data/words";
import { bytes, cost, count, duration, share } from "../../format";
import type { Report } from "../../report";
import { UnitMark } from "../../ui/mark";
import { mainTime, type SortKey, sortValue, type TimeKey } from "./filter";

export interface Column {
  key: string;
  title: string;
  /** The tooltip of the heading. */
  hint: string;
  /** A CSS grid track. */
  width: string;
  sort?: SortKey;
  isNumber?: boolean;
  isNarrow?: boolean;
  cell: (row: Row) => ComponentChildren;
}

/** Pixels of a character of the table's fixed-width font, and around a cell's text. */
const [CHARACTER, PADDING] = [7.6, 20];

/** A track that is as wide as its longest text needs, within limits in pixels. */
function fitting(texts: Iterable<string>, least: number, most: number): string {
  let longest = 0;
  for (const text of texts) longest = Math.max(longest, text.length);
  return `minmax(${least}px, ${Math.round(Math.min(Math.max(longest * CHARACTER + PADDING, least), most))}px)`;
}

/** The unit and the time of each operation, or else its type and its work: what a phone has room for. */
export function compactColumns(report: Report, most: Record<TimeKey, number>): Column[] {
  const { placement } = report;
  const unit: Column = {
    key: "unit",
    title: "Unit",
    hint: "planned: the unit that runs it",
    width: "56px",
    cell: (row) => {
      const chosen = row.column < 0 ? null : placement?.unit(row.column);
      return chosen && <span class={`unit-name unit-${chosen}`}>{UNIT_SHORT[chosen]}</span>;
    },
  };
  const time = timeColumn(report, most);
  if (!placement && !time) return columnsOf(report, most).filter((column) => column.key === "type" || column.key === "flops");
  return [...(placement ? [unit] : []), ...(time ? [{ ...time, width: "132px" }] : [])];
}

/** The time that matters most. */
function timeColumn(report: Report, most: Record<TimeKey, number>): Column | undefined {
  const key = mainTime(report);
  return columnsOf(report, most).find((column) => column.key === key);
}

/** The columns that the report has data for: where an operation runs and how long it takes, then what it is. */
export function columnsOf(report: Report, most: Record<TimeKey, number>, attributesOf: (row: Row) => string = () => ""): Column[] {
  const times = [...estimatedColumns(report, most), ...measuredColumns(report, most)];
  return [
    ...unitColumns(report),
    ...(mainTime(report) === "measured" ? times.reverse() : times),
    ...describing(report, attributesOf),
    ...plannedColumns(report, most),
  ];
}

function unitColumns({ placement }: Report): Column[] {
  if (!placement) return [];
  return (["cpu", "gpu", "neural_engine"] as const).map((unit) => ({
    key: unit,
    title: UNIT_SHORT[unit],
    isNarrow: true,
    hint: "planned: ● runs there, ◐ may as well, ○ could, ◇ cannot, ? not known",
    width: "40px",
    cell: (row) =>
      row.column >= 0 && <UnitMark unit={unit} mark={placement.mark(row.column, unit)} why={placement.doubt(row.column, unit)} />,
  }));
}

function estimatedColumns(report: Report, most: Record<TimeKey, number>): Column[] {
  const { estimate, target } = report;
  if (!estimate) return [];
  return [
    {
      key: "estimated",
      title: "Estimated",
      hint: `estimated on ${target?.device}; operations of one kernel share its time`,
      width: "168px",
      sort: "estimated",
      isNumber: true,
      cell: (row) => <Estimated report={report} row={row} most={most.estimated} />,
    },
    {
      key: "bound",
      title: "Waits for",
      hint: "What limits the estimated time",
      width: "88px",
      cell: (row) => {
        const bound = estimate.kernel_bound[row.kernel];
        return bound ? <span class="dim">{BOUND_WORDS[bound]}</span> : null;
      },
    },
  ];
}

function measuredColumns(report: Report, most: Record<TimeKey, number>): Column[] {
  if (!report.measurement?.groups.length) return [];
  return [
    {
      key: "measured",
      title: "Measured",
      hint: `measured by ${report.measuredBy}`,
      width: "168px",
      sort: "measured",
      isNumber: true,
      cell: (row) => <Measured report={report} row={row} most={most.measured} />,
    },
  ];
}

/** What a plan charges: no time, so it is last, and at first shown only where there are no times. */
function plannedColumns(report: Report, most: Record<TimeKey, number>): Column[] {
  if (report.placement?.totalMs == null) return [];
  const planned = sortValue(report, "planned");
  return [
    {
      key: "planned",
      title: "Planned cost",
      hint: "planned: what Core ML's cost model charges, which is no time, and its share of the graph's sum",
      width: "132px",
      sort: "planned",
      isNumber: true,
      cell: (row) => <Bar value={planned(row)} most={most.planned} text={cost} note={weight(report, row)} kind="planned" />,
    },
  ];
}

function describing({ placement, table, rows }: Report, attributesOf: (row: Row) => string): Column[] {
  const columns: Column[] = [
    {
      key: "type",
      title: "Type",
      hint: "Apple's name of the operation, and its key attributes",
      width: fitting(
        rows.all.map((row) => `${row.type} ${attributesOf(row)}`),
        96,
        240,
      ),
      sort: "type",
      cell: (row) => typeCell(row, attributesOf(row)),
    },
    {
      key: "output",
      title: "Output",
      hint: "Type and shape of the results",
      width: fitting(
        rows.all.map((row) => row.output),
        116,
        210,
      ),
      cell: (row) => <span class="mono dim">{row.output}</span>,
    },
  ];
  if (placement && rows.all.some((row) => row.column >= 0 && placement.obstacles(row.column).length > 0)) {
    columns.push({
      key: "reason",
      title: "Why not faster",
      hint: "The first reason that keeps it from a faster unit; the others are in the details",
      width: "minmax(132px, 1fr)",
      cell: (row) => <ReasonChip reason={row.column < 0 ? undefined : placement.obstacles(row.column)[0]} />,
    });
  }
  columns.push(
    {
      key: "flops",
      title: "FLOPs",
      hint: "declared: by the operation and its shapes; a multiply-add counts as two",
      width: "84px",
      sort: "flops",
      isNumber: true,
      cell: (row) => (row.op < 0 ? null : <span class="dim">{known(table.flops[row.op], table.work_is_complete[row.op], count)}</span>),
    },
    {
      key: "weights",
      title: "Weights",
      hint: "declared: bytes in the file",
      width: "84px",
      sort: "weights",
      isNumber: true,
      cell: (row) => (row.op < 0 || !table.weight_bytes[row.op] ? null : <span class="dim">{bytes(table.weight_bytes[row.op] ?? 0)}</span>),
    },
  );
  return columns;
}

/** A reason by its rule, with the sentence on hover. */
function ReasonChip({ reason }: { reason: Remedy | undefined }) {
  return reason ? (
    <span class="chip" title={reason.text}>
      {reason.rule === COST_RULE ? "costs more" : reason.rule}
    </span>
  ) : null;
}

function typeCell(row: Row, attributes: string) {
  return (
    <>
      <span class="op-type">{row.type}</span> {attributes && <span class="dim">{attributes}</span>}
      {row.kind !== "op" && <span class="chip">{row.kind === "engine" ? "engine" : "Core ML"}</span>}
    </>
  );
}

function known(value: number | null | undefined, isComplete: boolean | undefined, format: (value: number) => string): string {
  return value == null ? "?" : `${isComplete ? "" : "≥ "}${format(value)}`;
}

function weight(report: Report, row: Row): string {
  const part = row.column < 0 ? null : report.placement?.weight(row.column);
  return part == null ? "" : share(part);
}

/** The bar is beside the figure, so that neither covers the other. */
const Track = (props: { width: number }) => (
  <span class="bar-track">
    <span class="bar" style={{ width: `${props.width}%` }} />
  </span>
);

function Bar(props: { value: number | null; most: number; text: (value: number) => string; note?: string; kind: string }) {
  if (props.value === null) return null;
  const width = props.most ? Math.max((props.value / props.most) * 100, 0) : 0;
  return (
    <span class="bar-cell" title={props.note}>
      <Track width={width} />
      <span class="bar-text">{props.text(props.value)}</span>
    </span>
  );
}

/** The time of a group, shown at each of its operations and marked as shared. It is never split. */
function Measured(props: { report: Report; row: Row; most: number }) {
  const { row, report } = props;
  const group = report.groups[row.group];
  if (!group) return row.status && row.kind === "op" ? <span class="faint">{row.status}</span> : null;
  return (
    <Shared value={group.wall_s} members={idsOf(report.rows, group.ops)} row={row} most={props.most} kind="measured" noun="measured" />
  );
}

function Estimated(props: { report: Report; row: Row; most: number }) {
  const { report } = props;
  const value = report.estimate?.kernel_s[props.row.kernel];
  if (value === undefined) return null;
  const members = idsOf(report.rows, report.kernels[props.row.kernel]?.ops ?? []);
  return <Shared value={value} members={members} row={props.row} most={props.most} kind="estimated" noun="estimated" />;
}

function Shared(props: { value: number; members: string[]; row: Row; most: number; kind: string; noun: string }) {
  const { members, row } = props;
  const isFirst = members.length < 2 || members[0] === row.id;
  const width = props.most && isFirst ? (props.value / props.most) * 100 : 0;
  const title = members.length > 1 ? `${props.noun} together for ${members.length} operations: ${members.join(", ")}` : undefined;
  return (
    <span class="bar-cell" title={title}>
      <Track width={width} />
      {members.length > 1 && <span class="chip chip-group">{isFirst ? `${members.length} ops` : "same"}</span>}
      <span class={isFirst ? "bar-text" : "bar-text faint"}>{duration(props.value)}</span>
    </span>
  );
}
