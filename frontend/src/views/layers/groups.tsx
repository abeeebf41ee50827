import { useMemo } from "preact/hooks";
import type { LayerView } from "../../data/address";
import { buildTree, type Grouping, leavesOf, type Measure, measuresOf, type TreeNode } from "../../data/tree";
import { bytes, cost, count, duration } from "../../format";
import { useReport } from "../../report";
import { Choice } from "../../ui/choice";
import { useModules } from "../../ui/modules";
import { OriginTag } from "../../ui/origin";
import { UnitLegend } from "../../ui/units";
import { passes } from "./filter";
import { Flame } from "./flame";
import { Tree } from "./tree";

const GROUPINGS: readonly (readonly [Grouping, string])[] = [
  ["module", "Module"],
  ["block", "Block"],
  ["type", "Type"],
  ["kernel", "Kernel"],
];

const MEASURES: Record<Measure, string> = {
  estimated: "Estimated",
  measured: "Measured",
  planned: "Planned cost",
  flops: "FLOPs",
  weights: "Weights",
};

/** Names of columns in CSV. */
const COLUMNS: Record<Measure, string> = {
  estimated: "estimated_s",
  measured: "measured_s",
  planned: "planned_s",
  flops: "total_flops",
  weights: "total_weight_bytes",
};

const FORMATS: Record<Measure, (amount: number) => string> = {
  estimated: duration,
  measured: duration,
  planned: (seconds) => cost(seconds * 1e3),
  flops: count,
  weights: bytes,
};

const NOTES: Record<Grouping, string> = {
  module:
    "Modules are read from the names of operations and of their weights; an operation without either belongs to those around it. " +
    "A group that runs together counts for its operation with the most FLOPs.",
  block: "Blocks are scopes of names, or repeated sequences of types.",
  type: "A group that runs together counts for its operation with the most FLOPs.",
  kernel: "Groups that run together, by the types of their operations.",
};

/** Operations in groups with totals: as a tree, or as boxes as wide as their time. */
export function Groups(props: {
  isByAmount: boolean;
  isCompact: boolean;
  /** Takes the tree that is shown, with the name of its amounts. */
  onTree: (root: TreeNode, measure: string) => void;
}) {
  const report = useReport();
  const { layers, setLayers, filter, target, placement, measuredBy } = report;
  const measures = measuresOf(report);
  const measure = measures.find((one) => one === layers.measure) ?? measures[0] ?? "flops";
  const modules = useModules();
  const isDrawn = layers.view !== "tree";
  const root = useTree(measure, modules, isDrawn);
  props.onTree(root, COLUMNS[measure]);
  const words = useMemo(() => filter.text.toLowerCase().split(/\s+/).filter(Boolean), [filter.text]);
  const change = (changes: Partial<LayerView>) => setLayers({ ...layers, ...changes });
  const origin = measure === "flops" || measure === "weights" ? "declared" : measure;
  const format = FORMATS[measure];
  return (
    <>
      <div class="group-choices">
        <Choice label="Group by" options={GROUPINGS} value={layers.by} onChange={(by) => change({ by })} />
        <Choice
          label={isDrawn ? "Width" : "Totals of"}
          options={measures.map((one) => [one, MEASURES[one]] as const)}
          value={measure}
          onChange={(one) => change({ measure: one === measures[0] ? "" : one })}
        />
        <OriginTag origin={origin} on={origin === "measured" ? measuredBy : origin === "declared" ? undefined : target?.device} />
      </div>
      {layers.view === "tree" ? (
        <Tree root={root} isByAmount={props.isByAmount} format={format} heading={MEASURES[measure]} isCompact={props.isCompact} />
      ) : (
        <Flame
          root={root}
          isUpright={layers.view === "flame"}
          isByAmount={props.isByAmount}
          format={format}
          search={words}
          label={`${MEASURES[measure]} by ${layers.by}`}
        />
      )}
      <div class="layers-foot">
        <p class="dim">
          {NOTES[layers.by]}
          {placement && measure !== "estimated" && ` Colours are the units planned on ${placement.plan.device}.`}
        </p>
        <UnitLegend units={[...root.units.keys()]} />
      </div>
    </>
  );
}

/** The tree of the operations that pass the filter; in drawings a search highlights instead. */
function useTree(measure: Measure, modules: ReturnType<typeof useModules>, isDrawn: boolean): TreeNode {
  const report = useReport();
  const { rows, table, kernels, groups, estimate, placement, filter, layers } = report;
  const { text, ...others } = filter;
  const kept = isDrawn ? "" : text;
  const key = JSON.stringify([others, kept]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the filter is compared by its content.
  return useMemo(() => {
    const isKept = passes(report, { ...others, text: kept });
    const isWhole = Object.values({ ...others, text: kept }).every((value) => value === "");
    const leaves = leavesOf(report, measure).filter((leaf) => (leaf.rows.length > 0 ? leaf.rows.some(isKept) : isWhole));
    return buildTree(leaves, layers.by, report, modules);
  }, [rows, table, kernels, groups, estimate, placement, measure, modules, layers.by, key]);
}
