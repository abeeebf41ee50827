import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Costs, criticalPath, estimatedCosts, measuredCosts, outermost, plannedCosts } from "../../data/critical";
import { draw, opening, shapeOf } from "../../data/drawing";
import { type Fold, fold, folds, isFold } from "../../data/folding";
import type { Row } from "../../data/rows";
import { duration, plural, share } from "../../format";
import { requestLayout } from "../../layout/client";
import { HEIGHT, WIDTH } from "../../layout/shapes";
import { useReport } from "../../report";
import { Choice } from "../../ui/choice";
import { useModules } from "../../ui/modules";
import { OriginTag } from "../../ui/origin";
import { Section } from "../../ui/section";
import { useWidth } from "../../ui/width";
import { Canvas } from "./canvas";
import { Looks, readersAcrossUnits } from "./look";
import { Names } from "./names";
import type { Laid } from "./picture";
import { findRows, Search } from "./search";

type Colouring = "unit" | Costs["origin"];
/** The scale at which a graph is shown at first, if it has so many parts; and the space around a box. */
const [OPENING_SCALE, SPACE_X, SPACE_Y] = [0.62, 40, 40];

/** The dataflow graph, folded by scopes or repeated blocks, coloured by unit or by cost. */
export function Graph() {
  const { rows, placement } = useReport();
  const functions = useMemo(
    () => rows.functions.filter((name) => rows.all.some((row) => row.function === name && row.kind === "op")),
    [rows],
  );
  // A stage of a pipeline that is a single operation has no graph to show.
  const first = useMemo(
    () => functions.find((name) => rows.all.filter((row) => row.function === name && row.kind === "op").length > 1) ?? functions[0] ?? "",
    [functions, rows],
  );
  const [chosen, chooseFunction] = useState(first);
  const name = functions.includes(chosen) ? chosen : first;
  const top = useMemo(() => rows.all.filter((row) => row.kind === "op" && row.depth === 0 && row.function === name), [rows, name]);
  const [ref, width] = useWidth<HTMLDivElement>();
  const size = useMemo(() => ({ width, height: Math.round(Math.min(Math.max(innerHeight * 0.74, 420), 820)) }), [width]);
  const inputsOf = useInputs();
  const steady = useSteady(size);
  const [folding, setFolding] = useFolding(top, inputsOf, steady);
  const { laid, isBusy, hasFailed } = useLaid(folding, setFolding, inputsOf, steady);
  const drawing = laid?.drawing;
  const known = useCosts();
  const [colouring, choose] = useState<Colouring>("unit");
  const costs = known.find((one) => one.origin === colouring) ?? null;
  const [isPathShown, showPath] = useState(false);
  const pathCosts = costs ?? known[0] ?? null;
  const path = useMemo(
    () => (isPathShown && pathCosts ? criticalPath(top, inputsOf, pathCosts) : null),
    [isPathShown, top, inputsOf, pathCosts],
  );
  const [text, setText] = useState("");
  const found = useMemo(() => findRows(top, text), [top, text]);
  const looks = useMemo(
    () => new Looks({ rows: top, placement, costs, path, found: new Set(found) }),
    [top, placement, costs, path, found],
  );
  const names = useMemo(() => new Names(top), [top]);
  const crossings = useMemo(() => readersAcrossUnits(top, inputsOf, looks), [top, inputsOf, looks]);
  const { selected, select } = useReport();
  const search = useRef<HTMLInputElement>(null);
  const goToCrossing = (step: 1 | -1) => {
    const next = following(crossings, rows.byId.get(selected ?? ""), step);
    if (next) select(next.id);
  };
  if (!top.length) return null;
  const origin = costs?.origin;
  const options = [["unit", "Unit"] as const, ...known.map((one) => [one.origin, WORDS[one.origin]] as const)];
  return (
    <Section
      id="graph"
      title="Graph"
      note={
        <>
          <Origins origin={origin} />
          <span>
            {plural(top.length, "operation")}
            {folding.all.length > 0 && `, ${plural(drawing?.boxes.length ?? 0, "part")} shown`}
          </span>
        </>
      }
      actions={<Choice label="Colour by" options={options} value={origin ?? "unit"} onChange={choose} />}
    >
      <div class="graph-tools">
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
        <Search field={search} text={text} onText={setText} found={found} />
        {folding.all.length > 0 && <Levels folding={folding} onChange={setFolding} />}
        {pathCosts && (
          <button type="button" class="quiet" aria-pressed={isPathShown} onClick={() => showPath(!isPathShown)}>
            Critical path
          </button>
        )}
        {crossings.length > 0 && <Crossings rows={crossings} onGo={goToCrossing} />}
      </div>
      {path && pathCosts && (
        <p class="dim caption">
          Critical path, the longest chain of operations by {WORDS[pathCosts.origin].toLowerCase()}: {plural(path.rows.length, "operation")}
          , {duration(path.seconds)} of {duration(total(pathCosts, top))} ({share(path.seconds / total(pathCosts, top))}).
        </p>
      )}
      <div ref={ref} style={{ minHeight: `${size.height}px` }}>
        {hasFailed && <p class="dim">This graph cannot be drawn.</p>}
        {laid && (
          <Canvas
            key={name}
            {...{ laid, looks, names, size, isBusy, search }}
            onToggle={(one) => setFolding({ ...folding, open: toggled(folding.open, one), isOpening: false })}
            onCrossing={goToCrossing}
          />
        )}
      </div>
    </Section>
  );
}

const WORDS = { planned: "Planned cost", estimated: "Estimated time", measured: "Measured time", declared: "" } as const;

function Origins(props: { origin: Costs["origin"] | undefined }) {
  const { placement, measuredBy, target } = useReport();
  if (props.origin === "measured") return <OriginTag origin="measured" on={measuredBy} />;
  if (props.origin) return <OriginTag origin={props.origin} on={target?.device} />;
  return placement && <OriginTag origin="planned" on={placement.plan.device} />;
}

function total(costs: Costs, rows: readonly Row[]): number {
  const inside = new Set(rows);
  return costs.seconds.reduce((sum, one, group) => {
    const row = costs.firstOf[group];
    return row && inside.has(row) ? sum + one : sum;
  }, 0);
}

/** The parts of a graph, and which of its folds are open. */
interface Folding {
  parts: ReturnType<typeof fold>;
  all: Fold[];
  open: ReadonlySet<string>;
  /** Changes where the whole is to be shown. */
  fitted: number;
  /** Whether folds are still closed until the whole can be read. */
  isOpening: boolean;
}

function useFolding(top: readonly Row[], inputsOf: (row: Row) => Row[], size: Size): [Folding, (folding: Folding) => void] {
  const modules = useModules();
  const parts = useMemo(() => fold(top, inputsOf, modules), [top, inputsOf, modules]);
  const first = useMemo((): Folding => {
    const across = Math.max(1, Math.floor(size.width / OPENING_SCALE / (WIDTH + SPACE_X)));
    const down = Math.floor(size.height / OPENING_SCALE / (HEIGHT + SPACE_Y));
    return { parts, all: folds(parts), open: opening(parts, across * down), fitted: 0, isOpening: true };
  }, [parts, size]);
  const [state, setState] = useState<{ of: typeof parts; folding: Folding } | null>(null);
  const folding = state?.of === parts ? state.folding : first;
  const { selected } = useReport();
  // A selected operation inside folds is unfolded.
  // biome-ignore lint/correctness/useExhaustiveDependencies: what is folded later stays folded.
  useEffect(() => {
    const around = folding.all.filter((one) => one.rows.some((row) => row.id === selected)).map((one) => one.id);
    if (around.some((id) => !folding.open.has(id)))
      setState({ of: parts, folding: { ...folding, open: new Set([...folding.open, ...around]), isOpening: false } });
  }, [selected, parts]);
  return [folding, (next) => setState({ of: parts, folding: next })];
}

function toggled(open: ReadonlySet<string>, one: Fold): Set<string> {
  return open.has(one.id) ? new Set([...open].filter((id) => id !== one.id)) : new Set([...open, one.id]);
}

/** A graph with positions; as it was before until they are known. */
function useLaid(folding: Folding, setFolding: (folding: Folding) => void, inputsOf: (row: Row) => Row[], size: Size) {
  const [state, setState] = useState<{ laid: Laid | null; of: Folding["open"] | null }>({ laid: null, of: null });
  const aspect = Math.round((size.width / size.height) * 10) / 10;
  const latest = useRef({ setFolding, size, of: state.of });
  latest.current = { setFolding, size, of: state.of };
  const before = useRef(aspect);
  useEffect(() => {
    if (latest.current.of === folding.open && before.current === aspect) return undefined;
    before.current = aspect;
    let isWanted = true;
    settle(folding, inputsOf, aspect, latest.current.size).then(({ open, laid }) => {
      if (!isWanted) return;
      setState({ laid, of: open });
      if (open !== folding.open) latest.current.setFolding({ ...folding, open, isOpening: false });
    });
    return () => {
      isWanted = false;
    };
  }, [folding, inputsOf, aspect]);
  return { laid: state.laid, isBusy: state.of !== folding.open, hasFailed: state.of !== null && !state.laid };
}

/** Lays a graph out; on opening with fewer and fewer open folds until the whole can be read. */
async function settle(folding: Folding, inputsOf: (row: Row) => Row[], aspect: number, size: Size) {
  let { open } = folding;
  for (;;) {
    const drawing = draw(folding.parts, (one) => open.has(one.id), inputsOf);
    const positions = await requestLayout(shapeOf(drawing, aspect));
    const laid = positions && { drawing, positions, fitted: folding.fitted };
    if (!laid || !folding.isOpening || open.size === 0) return { open, laid };
    const scale = Math.min(size.width / laid.positions.width, size.height / laid.positions.height, 1);
    const ratio = (scale / OPENING_SCALE) ** 2;
    if (ratio > 0.85) return { open, laid };
    open = opening(folding.parts, Math.floor(drawing.boxes.length * Math.min(ratio * 1.1, 0.85)));
  }
}

interface Size {
  width: number;
  height: number;
}

/** Widths that differ by less have the same layout, so that a panel beside the graph does not rearrange it. */
const OTHER = 1.6;

/** The size, as it was before a small change of its width. */
function useSteady(size: Size): Size {
  const known = useRef(size);
  const ratio = size.width / known.current.width;
  if (ratio > OTHER || ratio < 1 / OTHER) known.current = size;
  return known.current;
}

/** Everything that can colour by time. */
function useCosts(): Costs[] {
  const { rows, groups, placement, kernels, estimate } = useReport();
  return useMemo(
    () =>
      [
        ...(placement ? [plannedCosts(rows, placement)] : []),
        ...(estimate?.kernel_s.length ? [estimatedCosts(rows, kernels, estimate)] : []),
        ...(groups.length ? [measuredCosts(rows, groups)] : []),
      ].filter((one) => one.seconds.some((seconds) => seconds > 0)),
    [rows, groups, placement, kernels, estimate],
  );
}

/** The one after a row in the program's order, or before it; the first follows the last. */
function following(list: readonly Row[], from: Row | undefined, step: 1 | -1): Row | undefined {
  const order = from?.order ?? -1;
  if (step === 1) return list.find((row) => row.order > order) ?? list[0];
  return list.findLast((row) => row.order < order) ?? list.at(-1);
}

/** Folds everything, or unfolds one level or all. */
function Levels(props: { folding: Folding; onChange: (folding: Folding) => void }) {
  const { folding } = props;
  const set = (open: Iterable<string>) => props.onChange({ ...folding, open: new Set(open), fitted: folding.fitted + 1 });
  const next = () => {
    const shown = (parts: Folding["parts"]): Fold[] =>
      parts.filter(isFold).flatMap((one) => (folding.open.has(one.id) ? shown(one.parts) : [one]));
    set([...folding.open, ...shown(folding.parts).map((one) => one.id)]);
  };
  const isFull = folding.all.every((one) => folding.open.has(one.id));
  return (
    <div class="buttons" role="group" aria-label="Folds">
      <button type="button" class="quiet" disabled={folding.open.size === 0} onClick={() => set([])}>
        Fold all
      </button>
      <button type="button" class="quiet" disabled={isFull} onClick={next}>
        One level more
      </button>
      <button type="button" class="quiet" disabled={isFull} onClick={() => set(folding.all.map((one) => one.id))}>
        Unfold all
      </button>
    </div>
  );
}

/** Leads through the operations that read a result of another unit: more than the changes of unit along the program's order. */
function Crossings(props: { rows: readonly Row[]; onGo: (step: 1 | -1) => void }) {
  const { selected } = useReport();
  const place = props.rows.findIndex((row) => row.id === selected);
  return (
    <div class="buttons" role="group" aria-label="Operations that read from another unit">
      <button type="button" class="quiet" aria-label="Previous operation that reads from another unit" onClick={() => props.onGo(-1)}>
        ‹
      </button>
      <span class="faint">
        <span class="change-mark" aria-hidden="true" /> {place >= 0 ? `${place + 1} of ` : ""}
        {plural(props.rows.length, "operation")} {props.rows.length === 1 ? "reads" : "read"} from another unit
      </span>
      <button type="button" class="quiet" aria-label="Next operation that reads from another unit" onClick={() => props.onGo(1)}>
        ›
      </button>
    </div>
  );
}

/** Maps an operation to the producers of its inputs; inputs of nested operations count for their owners. */
function useInputs(): (row: Row) => Row[] {
  const { rows, table } = useReport();
  return useMemo(() => {
    const found = new Map<Row, Set<Row>>();
    table.inputs.forEach((inputs, index) => {
      const reader = outermost(rows.ops[index]);
      if (!reader) return;
      const sources = found.get(reader) ?? new Set<Row>();
      for (const input of inputs ?? []) {
        const source = outermost(rows.ops[input]);
        if (source && source !== reader) sources.add(source);
      }
      found.set(reader, sources);
    });
    return (row: Row) => [...(found.get(row) ?? [])];
  }, [rows, table]);
}
