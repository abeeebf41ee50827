import { useEffect, useMemo, useState } from "preact/hooks";
import { type Fold, fold, folds, isFold, type Part } from "../../data/folding";
import { layOut } from "../../data/layout";
import type { Placement } from "../../data/placement";
import type { Row, Rows } from "../../data/rows";
import type { ComputeUnit, Group } from "../../data/schema";
import { plural } from "../../format";
import { useReport } from "../../report";
import { Choice } from "../../ui/choice";
import { OriginTag } from "../../ui/origin";
import { Section } from "../../ui/section";
import { Canvas } from "./canvas";
import type { Look } from "./node";

type Colouring = "unit" | "planned" | "measured";
/** Graphs of up to this many operations start unfolded. */
const SMALL = 48;

/** The dataflow graph, folded by scopes or repeated blocks, coloured by unit or by cost. */
export function Graph() {
  const { rows, placement, groups, measuredBy } = useReport();
  const functions = useMemo(
    () => rows.functions.filter((name) => rows.all.some((row) => row.function === name && row.kind === "op")),
    [rows],
  );
  const [chosen, chooseFunction] = useState(functions[0] ?? "");
  const name = functions.includes(chosen) ? chosen : (functions[0] ?? "");
  const top = useMemo(() => rows.all.filter((row) => row.kind === "op" && row.depth === 0 && row.function === name), [rows, name]);
  const parts = useMemo(() => fold(top), [top]);
  const all = useMemo(() => folds(parts), [parts]);
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  useEffect(() => setOpen(new Set(top.length <= SMALL ? all.map((one) => one.id) : [])), [top, all]);
  const inputsOf = useInputs();
  const layout = useMemo(() => layOut(parts, (one) => open.has(one.id), inputsOf), [parts, open, inputsOf]);
  const colourings = (
    [
      ["unit", "Unit"],
      ["planned", "Planned cost"],
      ["measured", "Measured time"],
    ] as const
  ).filter(([one]) => (one === "measured" ? groups.length > 0 : placement !== null));
  const [wanted, choose] = useState<Colouring>("unit");
  const colouring = colourings.some(([one]) => one === wanted) ? wanted : colourings[0]?.[0];
  const look = useLook(colouring, name);
  const toggle = (one: Fold) =>
    setOpen((old) => (old.has(one.id) ? new Set([...old].filter((id) => id !== one.id)) : new Set([...old, one.id])));
  const { selected } = useReport();
  // A selected operation inside folds is unfolded.
  useEffect(() => {
    const around = all.filter((one) => one.rows.some((row) => row.id === selected)).map((one) => one.id);
    if (around.length > 0) setOpen((old) => (around.every((id) => old.has(id)) ? old : new Set([...old, ...around])));
  }, [selected, all]);
  if (!top.length) return null;
  return (
    <Section
      id="graph"
      title="Graph"
      note={
        <>
          {colouring && (
            <OriginTag
              origin={colouring === "measured" ? "measured" : "planned"}
              on={colouring === "measured" ? measuredBy : placement?.plan.device}
            />
          )}
          <span>
            {plural(top.length, "operation")}
            {all.length > 0 && `, ${plural(layout.boxes.length, "part")} shown`}
          </span>
        </>
      }
      actions={
        <>
          {functions.length > 1 && (
            <label class="menu">
              <span>Function</span>
              <select value={name} onChange={(event) => chooseFunction(event.currentTarget.value)}>
                {functions.map((one) => (
                  <option key={one}>{one}</option>
                ))}
              </select>
            </label>
          )}
          <Search rows={top} />
          <Choice label="Colour by" options={colourings} value={colouring ?? "unit"} onChange={choose} />
          {all.length > 0 && (
            <button type="button" class="quiet" onClick={() => setOpen(new Set(open.size ? [] : all.map((one) => one.id)))}>
              {open.size ? "Fold all" : "Unfold all"}
            </button>
          )}
        </>
      }
    >
      <Canvas layout={layout} look={look} onToggle={toggle} />
    </Section>
  );
}

/** Finds operations by name, type or id; Enter goes to the next one. */
function Search(props: { rows: readonly Row[] }) {
  const { select, selected } = useReport();
  const [text, setText] = useState("");
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const found = words.length
    ? props.rows.filter((row) => words.every((word) => `${row.layer} ${row.name} ${row.type} ${row.id}`.toLowerCase().includes(word)))
    : [];
  const place = found.findIndex((row) => row.id === selected);
  return (
    <search class="graph-search">
      <input
        type="search"
        placeholder="Find an operation"
        aria-label="Find an operation in the graph"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          const next = found[(place + 1) % found.length];
          if (event.key === "Enter" && next) select(next.id);
        }}
      />
      <span class="faint" aria-live="polite">
        {words.length > 0 && (place >= 0 ? `${place + 1} of ${found.length}` : `${found.length} found`)}
      </span>
    </search>
  );
}

/** Maps an operation to the producers of its inputs; inputs of nested operations count for their owners. */
function useInputs(): (row: Row) => Row[] {
  const { rows, table } = useReport();
  return useMemo(() => {
    const byColumn = rows.ops;
    const owner = (row: Row): Row => (row.parent ? owner(row.parent) : row);
    const found = new Map<Row, Set<Row>>();
    table.inputs.forEach((inputs, index) => {
      const reader = byColumn[index] && owner(byColumn[index]);
      if (!reader) return;
      const sources = found.get(reader) ?? new Set<Row>();
      for (const input of inputs ?? []) {
        const source = byColumn[input] && owner(byColumn[input]);
        if (source && source !== reader) sources.add(source);
      }
      found.set(reader, sources);
    });
    return (row: Row) => [...(found.get(row) ?? [])];
  }, [rows, table]);
}

/** How boxes look: the units of what is in them, and their share of all costs. */
function useLook(colouring: Colouring | undefined, functionName: string): (part: Part) => Look {
  const { rows, groups, placement } = useReport();
  return useMemo(() => {
    const costs = new Map<Row, number>();
    if (colouring === "planned" && placement) addPlanned(costs, rows, placement);
    if (colouring === "measured") addMeasured(costs, rows, groups);
    let total = 0;
    for (const [row, cost] of costs) if (row.function === functionName) total += cost;
    return (part: Part): Look => {
      const inside = isFold(part) ? part.rows : [part];
      const cost = inside.reduce((sum, row) => sum + (costs.get(row) ?? 0), 0);
      return { units: unitsOf(inside, placement), share: colouring === "unit" || !total ? null : cost / total };
    };
  }, [rows, groups, placement, colouring, functionName]);
}

function addPlanned(costs: Map<Row, number>, rows: Rows, placement: Placement): void {
  for (const row of rows.all) if (row.column >= 0 && row.depth === 0) costs.set(row, placement.costMs(row.column) ?? 0);
}

/** The time of a group is never split: it is added to the first of its operations. */
function addMeasured(costs: Map<Row, number>, rows: Rows, groups: readonly Group[]): void {
  for (const group of groups) {
    let row = rows.ops[group.ops[0] ?? -1];
    while (row?.parent) row = row.parent;
    if (row) costs.set(row, (costs.get(row) ?? 0) + group.wall_s);
  }
}

/** How many of the operations run on each unit. */
function unitsOf(inside: readonly Row[], placement: Placement | null): Map<ComputeUnit, number> {
  const units = new Map<ComputeUnit, number>();
  for (const row of inside) {
    const unit = row.column >= 0 ? placement?.unit(row.column) : null;
    if (unit) units.set(unit, (units.get(unit) ?? 0) + 1);
  }
  return units;
}
