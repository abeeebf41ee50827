import { useEffect, useMemo, useState } from "preact/hooks";
import { NO_FILTER } from "../../data/filter";
import type { Row } from "../../data/rows";
import { duration, plural } from "../../format";
import { type Report, useReport } from "../../report";
import { CopyButton } from "../../ui/copy";
import { MarkLegend } from "../../ui/mark";
import { OriginTag } from "../../ui/origin";
import { Section } from "../../ui/section";
import { columnsOf } from "./columns";
import { Detail } from "./detail";
import { arrange, type Sort, sortValue } from "./filter";
import { Filters } from "./filters";
import { Grid } from "./grid";
import { toTabs } from "./text";

/** The layer table: one row per operation. */
export function Layers() {
  const report = useReport();
  const { placement, estimate, measuredBy, groups, rows, selected, select, filter, setFilter } = report;
  const [sort, setSort] = useState<Sort>({ key: "order", descending: false });
  const [folded, setFolded] = useState<ReadonlySet<string>>(new Set<string>());
  // biome-ignore lint/correctness/useExhaustiveDependencies: the order depends on these parts of the report only.
  const shown = useMemo(() => arrange(report, filter, sort, folded), [rows, placement, estimate, filter, sort, folded]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the columns depend on these parts of the report only.
  const columns = useMemo(() => columnsOf(report, largest(report)), [rows, placement, estimate]);
  const owners = useMemo(() => rows.all.filter((row) => row.hasChildren), [rows]);
  // Another view selected a hidden row: the filter and the folds that hide it are cleared.
  // biome-ignore lint/correctness/useExhaustiveDependencies: a later filter or fold may hide the selected row.
  useEffect(() => {
    if (selected && !shown.some((row) => row.id === selected)) {
      setFilter(NO_FILTER);
      setFolded(new Set<string>());
    }
  }, [selected]);
  const toggle = (id: string) =>
    setFolded((old) => {
      const next = new Set(old);
      if (!next.delete(id)) next.add(id);
      return next;
    });
  const row = selected === null ? undefined : rows.byId.get(selected);
  return (
    <Section
      id="layers"
      title="Layers"
      note={
        <>
          {groups.length > 0 && <OriginTag origin="measured" on={measuredBy} />}
          {placement && <OriginTag origin="planned" />}
          {estimate && <OriginTag origin="estimated" />}
        </>
      }
      actions={
        <CopyButton label="Copy rows that are shown, for a spreadsheet" text={() => toTabs(report, shown)}>
          Copy rows
        </CopyButton>
      }
    >
      <Filters filter={filter} onChange={setFilter} owners={owners} folded={folded} onFold={setFolded} />
      <div class={row ? "layers with-detail" : "layers"}>
        <Grid rows={shown} columns={columns} sort={sort} onSort={setSort} folded={folded} onToggle={toggle} total={rows.all.length} />
        {row && <Detail row={row} onClose={() => select(null)} />}
      </div>
      <div class="layers-foot">
        <p class="dim" aria-live="polite">
          {summary(report, shown)}
        </p>
        {placement && <MarkLegend />}
      </div>
    </Section>
  );
}

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
  const parts = [`${shown.length} of ${plural(report.rows.all.length, "row")}`];
  const groups = new Set(shown.map((row) => row.group).filter((group) => group >= 0));
  const measured = [...groups].reduce((sum, group) => sum + (report.groups[group]?.wall_s ?? 0), 0);
  if (groups.size) parts.push(`${duration(measured)} measured in ${plural(groups.size, "group")} that they are part of`);
  const planned = shown.reduce((sum, row) => sum + (row.column < 0 ? 0 : (report.placement?.costMs(row.column) ?? 0)), 0);
  if (planned) parts.push(`${duration(planned / 1e3)} planned`);
  return parts.join("; ");
}
