import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { NO_FILTER } from "../../data/filter";
import type { Row } from "../../data/rows";
import { sumOf } from "../../data/selection";
import type { TreeNode } from "../../data/tree";
import { duration, plural } from "../../format";
import { type Report, useReport } from "../../report";
import { Choice } from "../../ui/choice";
import { CopyButton } from "../../ui/copy";
import { MarkLegend } from "../../ui/mark";
import { usePrograms } from "../../ui/modules";
import { OriginTag } from "../../ui/origin";
import { Section } from "../../ui/section";
import { useWidth } from "../../ui/width";
import { ColumnMenu, inOrder, moved, USUAL, useArrangement } from "./arrangement";
import { columnsOf, compactColumns } from "./columns";
import { arrange, joinEqual, mainTime, passesAll, type Sort, sortValue } from "./filter";
import { Filters } from "./filters";
import { Grid } from "./grid";
import { Groups } from "./groups";
import { toCells, toTabs, treeCells } from "./text";

/** The layer table: one row per operation. */
export function Layers() {
  const report = useReport();
  const { placement, estimate, measuredBy, groups, times, rows, selected, filter, setFilter, layers, setLayers } = report;
  const isTable = layers.view === "table";
  const [sort, setSort] = useState<Sort>(() => slowestFirst(report));
  const { attributesOf } = usePrograms();
  const [arrangement, arrangeColumns] = useArrangement(times ? WITHOUT_PLANNED : USUAL);
  const [ref, width] = useWidth<HTMLDivElement>(1000);
  const isCompact = width < COMPACT;
  const [isOnce, setOnce] = useState(true);
  const [folded, setFolded] = useState<ReadonlySet<string>>(new Set<string>());
  // biome-ignore lint/correctness/useExhaustiveDependencies: the order depends on these parts of the report only.
  const all = useMemo(() => arrange(report, filter, sort, folded), [rows, placement, estimate, filter, sort, folded]);
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set<string>());
  const isJoined = isOnce && sort.key !== "order" && passesAll(filter);
  // biome-ignore lint/correctness/useExhaustiveDependencies: what the report changes is in the rows.
  const { rows: shown, times: equals } = useMemo(
    () => (isJoined ? joinEqual(report, all, attributesOf, opened) : { rows: all, times: NONE }),
    [all, isJoined, attributesOf, opened],
  );
  // biome-ignore lint/correctness/useExhaustiveDependencies: the columns depend on these parts of the report only.
  const every = useMemo(() => columnsOf(report, largest(report), attributesOf), [rows, placement, estimate, attributesOf]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: as above.
  const compact = useMemo(() => compactColumns(report, largest(report)), [rows, placement, estimate]);
  const { hidden, order } = arrangement;
  // biome-ignore lint/correctness/useExhaustiveDependencies: widths do not change which columns there are.
  const columns = useMemo(
    () => (isCompact ? compact : inOrder(every, arrangement).filter((one) => !hidden.includes(one.key))),
    [isCompact, compact, every, hidden, order],
  );
  const owners = useMemo(() => rows.all.filter((row) => row.hasChildren), [rows]);
  // Another view selected a hidden row: the filter and the folds that hide it are cleared.
  // biome-ignore lint/correctness/useExhaustiveDependencies: a later filter or fold may hide the selected row.
  useEffect(() => {
    if (selected && !shown.some((row) => row.id === selected)) {
      if (all.some((row) => row.id === selected)) setOnce(false);
      else setFilter(NO_FILTER);
      setFolded(new Set<string>());
    }
  }, [selected]);
  const toggle = (id: string) =>
    setFolded((old) => {
      const next = new Set(old);
      if (!next.delete(id)) next.add(id);
      return next;
    });
  const setWidth = (key: string, pixels: number | null) =>
    arrangeColumns((old) => {
      const { [key]: _, ...others } = old.widths;
      return { ...old, widths: pixels === null ? others : { ...others, [key]: pixels } };
    });
  const tree = useRef<[TreeNode, string] | null>(null);
  const cells = () => (isTable || !tree.current ? toCells(report, all) : treeCells(...tree.current));
  return (
    <Section
      id="layers"
      title="Layers"
      cells={cells}
      note={
        <>
          {estimate && <OriginTag origin="estimated" />}
          {groups.length > 0 && <OriginTag origin="measured" on={measuredBy} />}
          {placement && <OriginTag origin="planned" />}
        </>
      }
      actions={
        <CopyButton label="Copy rows that are shown, for a spreadsheet" text={() => toTabs(cells())}>
          Copy rows
        </CopyButton>
      }
    >
      <Filters filter={filter} onChange={setFilter} owners={owners} folded={folded} onFold={setFolded}>
        <Choice label="Layers as" options={VIEWS} value={layers.view} onChange={(view) => setLayers({ ...layers, view })} />
        <Choice
          label="Order of the rows"
          options={mainTime(report) ? ORDERS : WORK_ORDERS}
          value={sort.key === "order" ? "order" : "most"}
          onChange={(order) => setSort(order === "order" ? PROGRAM_ORDER : mostFirst(report))}
        />
        {isTable && sort.key !== "order" && passesAll(filter) && (
          <Choice
            label="Equal rows"
            options={EQUALS}
            value={isOnce ? "once" : "each"}
            onChange={(one) => {
              setOnce(one === "once");
              setOpened(new Set<string>());
            }}
          />
        )}
        {!isCompact && isTable && (
          <ColumnMenu columns={every} usual={times ? WITHOUT_PLANNED : USUAL} arrangement={arrangement} onChange={arrangeColumns} />
        )}
      </Filters>
      <div ref={ref}>
        {isTable ? (
          <Grid
            rows={shown}
            times={equals}
            onOpen={(id) => setOpened((old) => new Set([...old, id]))}
            columns={columns}
            sort={sort}
            onSort={setSort}
            folded={folded}
            onToggle={toggle}
            widths={isCompact ? NO_WIDTHS : arrangement.widths}
            onWidth={isCompact ? undefined : setWidth}
            onMove={(key, to) => arrangeColumns((old) => moved(every, old, key, to))}
          />
        ) : (
          <Groups
            onTree={(...made) => {
              tree.current = made;
            }}
            isByAmount={sort.key !== "order"}
            isCompact={isCompact}
          />
        )}
      </div>
      {isTable && (
        <div class="layers-foot">
          <p class="dim" aria-live="polite">
            {summary(report, all)}
          </p>
          {placement && <MarkLegend />}
        </div>
      )}
    </Section>
  );
}

const VIEWS = [
  ["table", "Table"],
  ["tree", "Tree"],
  ["icicle", "Icicle"],
  ["flame", "Flame"],
] as const;
const EQUALS = [
  ["once", "Equal rows once"],
  ["each", "Every row"],
] as const;
const NONE: ReadonlyMap<string, number> = new Map();
const NO_WIDTHS = {};
/** Where there are times, what a plan charges is shown only on request. */
const WITHOUT_PLANNED = { ...USUAL, hidden: ["planned"] };
const ORDERS = [
  ["most", "Slowest first"],
  ["order", "Program order"],
] as const;
/** Without any time. */
const WORK_ORDERS = [
  ["most", "Most work first"],
  ["order", "Program order"],
] as const;
const PROGRAM_ORDER: Sort = { key: "order", descending: false };
/** A table of fewer pixels shows the name, the unit and the time. */
const COMPACT = 620;

function slowestFirst(report: Report): Sort {
  const key = mainTime(report);
  return key ? { key, descending: true } : PROGRAM_ORDER;
}

/** The rows with the largest times first; without any time those with the most work. */
const mostFirst = (report: Report): Sort => ({ key: mainTime(report) ?? "flops", descending: true });

/** The maximum of each column with bars. */
function largest(report: Report) {
  const most = (key: "planned" | "measured" | "estimated") => {
    const value = sortValue(report, key);
    return report.rows.all.reduce((found, row) => Math.max(found, value(row) ?? 0), 0);
  };
  return { planned: most("planned"), measured: most("measured"), estimated: most("estimated") };
}

/** Sums over the rows shown; the time of a group counts once. */
function summary(report: Report, shown: Row[]): string {
  const { seconds, groups } = sumOf(shown, report.table, report.times);
  const parts = [`${shown.length} of ${plural(report.rows.all.length, "row")}`];
  if (seconds !== null) parts.push(`${duration(seconds)} ${report.times?.origin} in ${plural(groups, "group")} that they are part of`);
  return parts.join("; ");
}
