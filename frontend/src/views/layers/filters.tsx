import type { ComponentChildren } from "preact";
import { useMemo } from "preact/hooks";
import { type Filter, NO_FILTER } from "../../data/filter";
import { COST_RULE } from "../../data/placement";
import type { Row } from "../../data/rows";
import type { ComputeUnit } from "../../data/schema";
import { plannedColumns } from "../../data/totals";
import { ALLOWED, UNIT_SHORT } from "../../data/words";
import { useReport } from "../../report";
import { Menu } from "../../ui/menu";
import { causeOf } from "./filter";

/** Search and the menus above the layer table. */
export function Filters(props: {
  filter: Filter;
  onChange: (filter: Filter) => void;
  owners: Row[];
  folded: ReadonlySet<string>;
  onFold: (folded: ReadonlySet<string>) => void;
  /** More controls, after the filters. */
  children: ComponentChildren;
}) {
  const report = useReport();
  const { rows, placement, answer } = report;
  const parts = answer?.time.filter((one) => one.kernels.length > 0) ?? [];
  const { filter, onChange, owners } = props;
  const cause = filter.cause ? causeOf(report, filter.cause) : undefined;
  const set = (key: keyof Filter) => (value: string) => onChange({ ...filter, [key]: value } as Filter);
  const reasons = useMemo(() => {
    const found = new Map<string, number>();
    if (placement)
      for (const row of rows.all)
        if (row.column >= 0)
          for (const rule of new Set(placement.obstacles(row.column).map((one) => one.rule))) found.set(rule, (found.get(rule) ?? 0) + 1);
    return [...found].sort((a, b) => b[1] - a[1]);
  }, [rows, placement]);
  const units = useMemo(() => {
    if (!placement) return [];
    const found = new Map<ComputeUnit | "none", number>(ALLOWED[placement.name].map((unit) => [unit, 0]));
    for (const column of plannedColumns(rows)) {
      const unit = placement.unit(column) ?? "none";
      found.set(unit, (found.get(unit) ?? 0) + 1);
    }
    return [...found];
  }, [rows, placement]);
  const types = useMemo(() => counted(rows.all), [rows]);
  const isNarrowed = (Object.keys(NO_FILTER) as (keyof Filter)[]).some((key) => filter[key] !== "");
  return (
    <search class="filters" aria-label="Filter layers">
      <input
        type="search"
        placeholder="Search name, type, shape, id"
        aria-label="Search layers"
        value={filter.text}
        onInput={(event) => set("text")(event.currentTarget.value)}
      />
      {placement && (
        <div class="choice" role="group" aria-label="Filter by unit">
          {units.map(([unit, number]) => (
            <button
              key={unit}
              type="button"
              class={filter.unit === unit ? "chosen" : ""}
              aria-pressed={filter.unit === unit}
              onClick={() => set("unit")(filter.unit === unit ? "" : unit)}
            >
              <span class={`swatch fill-${unit}`} /> {unit === "none" ? "not known" : UNIT_SHORT[unit]} {number}
            </button>
          ))}
        </div>
      )}
      <Menu
        label="Type"
        value={filter.type}
        onChange={set("type")}
        options={types.map(([type, number]) => [type, `${type} (${number})`])}
      />
      {reasons.length > 0 && (
        <Menu
          label="Reason"
          value={filter.reason}
          onChange={set("reason")}
          options={reasons.map(([rule, number]) => [rule, `${rule === COST_RULE ? "costs more" : rule} (${number})`])}
        />
      )}
      {filter.part && (
        <Menu label="Part of the time" value={filter.part} onChange={set("part")} options={parts.map(({ part }) => [part, part])} />
      )}
      {cause && <Menu label="With" value={filter.cause} onChange={set("cause")} options={[[filter.cause, cause.text]]} />}
      {rows.functions.length > 1 && (
        <Menu label="Function" value={filter.function} onChange={set("function")} options={rows.functions.map((name) => [name, name])} />
      )}
      {isNarrowed && (
        <button type="button" class="quiet" onClick={() => onChange(NO_FILTER)}>
          Clear
        </button>
      )}
      {owners.length > 0 && (
        <button type="button" class="quiet" onClick={() => props.onFold(new Set(props.folded.size ? [] : owners.map((row) => row.id)))}>
          {props.folded.size ? "Unfold all" : "Fold all"}
        </button>
      )}
      {props.children}
    </search>
  );
}

function counted(rows: Row[]): [string, number][] {
  const found = new Map<string, number>();
  for (const row of rows) found.set(row.type, (found.get(row.type) ?? 0) + 1);
  return [...found].sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0]));
}
