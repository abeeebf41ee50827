import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { type Costs, criticalPath, estimatedCosts, measuredCosts, plannedCosts } from "../../data/critical";
import { type Drawing, draw, opening, shapeOf } from "../../data/drawing";
import { DRAWN, type Fold, isMixed, type Part, type Sameness, shownFolds } from "../../data/folding";
import { estimatedTimeline } from "../../data/lanes";
import type { Row } from "../../data/rows";
import { sumOf } from "../../data/selection";
import { bytes, count, duration, plural, share } from "../../format";
import { requestLayout } from "../../layout/client";
import { HEIGHT, WIDTH } from "../../layout/shapes";
import { useReport } from "../../report";
import { Choice } from "../../ui/choice";
import { usePrograms } from "../../ui/modules";
import { OriginTag } from "../../ui/origin";
import { Section } from "../../ui/section";
import { useWidth } from "../../ui/width";
import { Canvas } from "./canvas";
import { Looks, secondsOf } from "./look";
import { Names } from "./names";
import type { Laid } from "./picture";
import { findRows, Search } from "./search";
import { Side } from "./side";

type Colouring = "unit" | Costs["origin"];
/** The height below the drawing, which is kept until it is drawn: links to what follows land where they should. */
const [FOOT, PHONE_FOOT] = [66, 110];
const NO_ROWS: readonly Row[] = [];
const NOTHING: ReadonlySet<Row> = new Set();

/** The dataflow graph, with equal blocks drawn once, coloured by unit or by time. */
export function Graph() {
  const { rows, table, times, estimate, kernels, selected, select } = useReport();
  const { functions, inputsOf, unitOf, attributesOf } = usePrograms();
  // A stage of a pipeline that is a single operation has no graph to show.
  const first = [...functions].find(([, { top }]) => top.length > 1)?.[0] ?? [...functions.keys()][0] ?? "";
  const [chosen, chooseFunction] = useState(first);
  const name = functions.has(chosen) ? chosen : first;
  const { top, parts } = functions.get(name) ?? { top: NO_ROWS, parts: NO_ROWS };
  const [ref, width] = useWidth<HTMLDivElement>();
  const size = useMemo(() => ({ width, height: Math.round(Math.min(Math.max(innerHeight * 0.74, 420), 820)) }), [width]);
  const [folding, setFolding] = useFolding(parts, unitOf);
  const drawing = useMemo(() => draw(parts, (one) => folding.open.has(one.id), inputsOf), [parts, folding.open, inputsOf]);
  const { laid, isBusy, hasFailed } = useLaid(drawing, folding.fitted, useSteady(size));
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
  const [picked, pick] = useState<ReadonlySet<Row>>(NOTHING);
  const shown = laid?.drawing ?? drawing;
  const looks = useMemo(
    () => new Looks({ drawing: shown, rows: top, unitOf, attributesOf, times, costs, path, found: new Set(found), picked }),
    [shown, top, unitOf, attributesOf, times, costs, path, found, picked],
  );
  const names = useMemo(() => new Names(top), [top]);
  const changes = useMemo(() => {
    const timeline = estimate && estimatedTimeline(table, kernels, estimate);
    const inside = new Set(top.map((row) => row.id));
    return (timeline?.switches ?? []).filter(({ id }) => inside.has(id));
  }, [top, table, kernels, estimate]);
  const search = useRef<HTMLInputElement>(null);
  const goToChange = (step: 1 | -1) => {
    const order = rows.byId.get(selected ?? "")?.order ?? -1;
    const places = changes.map(({ id }) => ({ id, order: rows.byId.get(id)?.order ?? -1 }));
    const next =
      step === 1 ? (places.find((one) => one.order > order) ?? places[0]) : (places.findLast((one) => one.order < order) ?? places.at(-1));
    if (next) select(next.id);
  };
  const pickParts = (chosen: readonly Part[], isMore: boolean) => {
    const next = new Set(isMore ? picked : []);
    for (const part of chosen) {
      const inside = shown.rowsOf.get(part) ?? [];
      const isOut = chosen.length === 1 && inside.every((row) => picked.has(row));
      for (const row of inside)
        if (isOut) next.delete(row);
        else next.add(row);
    }
    pick(next);
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
          <Origins origin={origin ?? times?.origin} />
          <span>
            {plural(top.length, "operation")}
            {drawing.boxes.length !== top.length && `, ${plural(drawing.boxes.length, "part")} shown`}
          </span>
        </>
      }
      actions={<Choice label="Colour by" options={options} value={origin ?? "unit"} onChange={choose} />}
    >
      <div class="graph-tools">
        {functions.size > 1 && (
          <label class="menu">
            <span>Function</span>
            <select value={name} onChange={(event) => chooseFunction(event.currentTarget.value)}>
              {[...functions.keys()].map((one) => (
                <option key={one}>{one}</option>
              ))}
            </select>
          </label>
        )}
        <Search field={search} text={text} onText={setText} found={found} />
        {folding.all.length > 0 && <Levels {...{ folding, unitOf }} onChange={setFolding} />}
        {pathCosts && (
          <button type="button" class="quiet" aria-pressed={isPathShown} onClick={() => showPath(!isPathShown)}>
            Critical path
          </button>
        )}
      </div>
      {path && pathCosts && (
        <p class="dim caption">
          Critical path, the longest chain of operations by {WORDS[pathCosts.origin].toLowerCase()}: {plural(path.rows.length, "operation")}
          {pathCosts.origin !== "planned" && `, ${duration(path.seconds)} of ${duration(secondsOf(top, pathCosts))}`} (
          {share(path.seconds / secondsOf(top, pathCosts))}).
        </p>
      )}
      <div class="graph-body">
        <div ref={ref} style={{ minHeight: `${size.height + (innerWidth > 720 ? FOOT : PHONE_FOOT)}px` }}>
          {hasFailed && <p class="dim">This graph cannot be drawn.</p>}
          {!laid && !hasFailed && <svg {...size} role="img" aria-label="The graph is being laid out" />}
          {laid && (
            <Canvas
              key={name}
              {...{ laid, looks, names, size, isBusy, search, changes }}
              sum={picked.size > 0 ? sumWords(sumOf(picked, table, times), times) : ""}
              onToggle={(one) => setFolding({ ...folding, open: toggled(folding.open, one, unitOf) })}
              onChange={goToChange}
              onPick={pickParts}
            />
          )}
        </div>
        <Side {...{ drawing: shown, looks, names, changes, times }} />
      </div>
    </Section>
  );
}

/** `12 operations: 3.66 ms estimated in 8 groups, 1.21 G FLOPs, 3.40 MB read and written`. */
function sumWords(sum: ReturnType<typeof sumOf>, times: Costs | null): string {
  const least = sum.isComplete ? "" : "≥ ";
  const parts = [
    sum.seconds !== null && `${duration(sum.seconds)} ${times?.origin} in ${plural(sum.groups, "group")}`,
    `${least}${count(sum.flops)} FLOPs`,
    `${least}${bytes(sum.bytes)} read and written`,
  ];
  return `Selected ${plural(sum.ops, "operation")}: ${parts.filter(Boolean).join(", ")}`;
}

const WORDS = { planned: "Planned share", estimated: "Estimated time", measured: "Measured time", declared: "" } as const;

function Origins(props: { origin: Costs["origin"] | undefined }) {
  const { placement, measuredBy, target } = useReport();
  if (props.origin === "measured") return <OriginTag origin="measured" on={measuredBy} />;
  if (props.origin) return <OriginTag origin={props.origin} on={target?.device} />;
  return placement && <OriginTag origin="planned" on={placement.plan.device} />;
}

/** Which folds of a graph are open. */
interface Folding {
  all: Fold[];
  open: ReadonlySet<string>;
  /** Changes where the beginning is to be shown. */
  fitted: number;
}

function useFolding(parts: readonly Part[], unitOf: Sameness["unit"]): [Folding, (folding: Folding) => void] {
  const first = useMemo((): Folding => ({ all: shownFolds(parts), open: opening(parts, DRAWN, unitOf), fitted: 0 }), [parts, unitOf]);
  const [state, setState] = useState<{ of: typeof parts; folding: Folding } | null>(null);
  const folding = state?.of === parts ? state.folding : first;
  const { selected } = useReport();
  // A selected operation inside folds is unfolded.
  // biome-ignore lint/correctness/useExhaustiveDependencies: what is folded later stays folded.
  useEffect(() => {
    const around = folding.all.filter((one) => one.rows.some((row) => row.id === selected)).map((one) => one.id);
    if (around.some((id) => !folding.open.has(id)))
      setState({ of: parts, folding: { ...folding, open: new Set([...folding.open, ...around]) } });
  }, [selected, parts]);
  return [folding, (next) => setState({ of: parts, folding: next })];
}

/** What runs on several units stays open, so that no box hides a change of unit. */
function toggled(open: ReadonlySet<string>, one: Fold, unitOf: Sameness["unit"]): Set<string> {
  if (!open.has(one.id)) return new Set([...open, one.id]);
  return isMixed(one.rows, unitOf) ? new Set(open) : new Set([...open].filter((id) => id !== one.id));
}

/** A graph with positions; as it was before until they are known. */
function useLaid(drawing: Drawing, fitted: number, size: Size) {
  const [state, setState] = useState<{ laid: Laid | null; of: Drawing | null }>({ laid: null, of: null });
  const aspect = aspectOf(drawing.boxes.length, size);
  useEffect(() => {
    let isWanted = true;
    requestLayout(shapeOf(drawing, aspect)).then((positions) => {
      if (isWanted) setState({ laid: positions && { drawing, positions, fitted }, of: drawing });
    });
    return () => {
      isWanted = false;
    };
  }, [drawing, fitted, aspect]);
  return { laid: state.laid, isBusy: state.of !== drawing, hasFailed: state.of !== null && !state.laid };
}

/** As wide as the place where it is read, and as high as it takes; in steps, so that small changes do not rearrange it. */
function aspectOf(boxes: number, { width, height }: Size): number {
  const narrow = width ** 2 / (boxes * (WIDTH + 50) * (HEIGHT + 40));
  return 2 ** (Math.round(2 * Math.log2(Math.min(width / height, narrow))) / 2);
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
        ...(estimate?.kernel_s.length ? [estimatedCosts(rows, kernels, estimate)] : []),
        ...(groups.length ? [measuredCosts(rows, groups)] : []),
        ...(placement ? [plannedCosts(rows, placement)] : []),
      ].filter((one) => one.seconds.some((seconds) => seconds > 0)),
    [rows, groups, placement, kernels, estimate],
  );
}

/** Folds what can be folded, or unfolds all. */
function Levels(props: { folding: Folding; unitOf: Sameness["unit"]; onChange: (folding: Folding) => void }) {
  const { folding, unitOf } = props;
  const set = (open: Fold[]) => props.onChange({ ...folding, open: new Set(open.map((one) => one.id)), fitted: folding.fitted + 1 });
  const mixed = folding.all.filter((one) => isMixed(one.rows, unitOf));
  return (
    <div class="buttons" role="group" aria-label="Folds">
      <button type="button" class="quiet" disabled={folding.open.size === mixed.length} onClick={() => set(mixed)}>
        Fold all
      </button>
      <button type="button" class="quiet" disabled={folding.all.every((one) => folding.open.has(one.id))} onClick={() => set(folding.all)}>
        Unfold all
      </button>
    </div>
  );
}
