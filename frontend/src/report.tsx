import { type ComponentChildren, createContext } from "preact";
import { useContext, useEffect, useLayoutEffect, useMemo, useState } from "preact/hooks";
import { type LayerView, readAddress, writeAddress } from "./data/address";
import { type Costs, timesOf } from "./data/critical";
import { type Filter, NO_FILTER } from "./data/filter";
import { Placement } from "./data/placement";
import { answerOf, covers, measurementName, sortFindings, type Target, targetsOf } from "./data/profile";
import { buildRows, type Rows } from "./data/rows";
import type {
  Answer,
  ComputeUnits,
  Estimate,
  Finding,
  Group,
  Kernel,
  Measurement,
  ModelForm,
  ModelSummary,
  OpTable,
  Profile,
  ProfileForm,
} from "./data/schema";
import { holdPosition } from "./ui/hold";

/** Everything that the views of one result share. Every part of a profile may be absent. */
export interface Report {
  model: ModelSummary;
  /** Null where the page shows a model only. */
  profile: Profile | null;
  table: OpTable;
  rows: Rows;
  /** The findings on the model, and what failed; others of a measurement stand with its times. */
  findings: Finding[];
  measurements: Measurement[];
  /** The chosen measurement; null where nothing was measured. */
  measurement: Measurement | null;
  /** The name of the chosen measurement. */
  measuredBy: string | undefined;
  /** The groups of the chosen measurement. */
  groups: Group[];
  kernels: Kernel[];
  /** The devices that are planned or estimated. */
  targets: Target[];
  /** The chosen device; null where there is none. */
  target: Target | null;
  /** The chosen setting; one that is known for the device. */
  setting: ComputeUnits;
  /** The plan of the chosen device and setting; null where it was not planned. */
  placement: Placement | null;
  /** The answer for the chosen device and setting; null where the profile has none. */
  answer: Answer | null;
  /** The estimate for the chosen device and setting; null where it was not estimated. */
  estimate: Estimate | null;
  /** The times of operations that views show: measured on the chosen device, else estimated for it, else measured elsewhere. */
  times: Costs | null;
  chooseMeasurement: (measurement: Measurement) => void;
  chooseTarget: (target: Target, setting?: ComputeUnits) => void;
  /** The id of the selected operation, whose details are open. Any view may set it. */
  selected: string | null;
  select: (id: string | null) => void;
  /** Selects an operation and goes to the layer table. */
  showOp: (id: string) => void;
  /** What the layer table shows. */
  filter: Filter;
  setFilter: (filter: Filter) => void;
  /** How the layers are shown. */
  layers: LayerView;
  setLayers: (layers: LayerView) => void;
  /** Shows in the layer table only what a filter passes. */
  showOnly: (filter: Partial<Filter>) => void;
}

const Context = createContext<Report | null>(null);

/** The report that contains the view. */
export function useReport(): Report {
  const report = useContext(Context);
  if (!report) throw new Error("the view is not inside a report");
  return report;
}

export function ReportProvider(props: { result: ProfileForm | ModelForm; children: ComponentChildren }) {
  const { result } = props;
  const profile = result.schema === "coremlscope.profile/2" ? result : null;
  const measurements = profile?.measurements ?? NONE;
  const targets = useMemo(() => (profile ? targetsOf(profile) : []), [profile]);
  const findings = useMemo(() => sortFindings([...(profile?.findings ?? []), ...measurements.flatMap(failures)]), [profile, measurements]);
  const [measured, chooseMeasurement] = useState<Measurement | null>(measurements[0] ?? null);
  const opened = useMemo(() => {
    const ids = new Set([...result.ops.id, ...targets.flatMap((one) => one.plan?.ops.inserted.map((op) => op.id) ?? [])]);
    return readAddress(location.search, targets, (id) => ids.has(id));
  }, [result, targets]);
  const [chosen, choose] = useState<{ target: Target | null; wanted: ComputeUnits }>({ target: opened.target, wanted: opened.setting });
  const [selected, setSelected] = useState<string | null>(opened.selected);
  const [filter, setFilter] = useState<Filter>(opened.filter);
  const [layers, setLayers] = useState<LayerView>(opened.layers);
  const { target, wanted } = chosen;
  const setting = target && !target.settings.includes(wanted) ? (target.settings[0] ?? wanted) : wanted;
  useLayoutEffect(() => {
    const query = writeAddress({ target, setting, selected, filter, layers }, targets);
    if (query !== location.search) history.replaceState(history.state, "", `${location.pathname}${query}${location.hash}`);
  }, [target, setting, selected, filter, layers, targets]);
  useEffect(() => {
    if (opened.selected !== null && !location.hash) goToLayers();
  }, [opened]);
  const plan = target?.plan ?? null;
  const table = result.ops;
  const estimate = target?.estimates.get(setting) ?? null;
  const kernels = (estimate?.kernels.length ? estimate.kernels : profile?.kernels) ?? NONE;
  const rows = useMemo(() => buildRows(table, measured, plan, kernels), [table, measured, plan, kernels]);
  const placement = useMemo(() => placementOf(plan, setting), [plan, setting]);
  const answer = profile && target ? answerOf(profile, target, setting) : null;
  const times = useMemo(() => timesOf(rows, kernels, measured, target, estimate), [rows, kernels, measured, target, estimate]);
  const report: Report = {
    model: result.schema === "coremlscope.profile/2" ? result.model : result,
    profile,
    table,
    rows,
    findings,
    measurements,
    measurement: measured,
    measuredBy: measured ? measurementName(measurements, measured) : undefined,
    groups: measured?.groups ?? NONE,
    kernels,
    targets,
    target,
    setting,
    placement,
    answer,
    estimate,
    times,
    chooseMeasurement,
    chooseTarget: (one, setting) => choose({ target: one, wanted: setting ?? wanted }),
    selected,
    select: (id) => {
      holdPosition();
      setSelected(id);
    },
    showOp: (id) => {
      setSelected(id);
      setLayers((old) => ({ ...old, view: "table" }));
      goToLayers();
    },
    filter,
    setFilter,
    layers,
    setLayers,
    showOnly: (only) => {
      setFilter({ ...NO_FILTER, ...only });
      setLayers((old) => ({ ...old, view: "table" }));
      goToLayers();
    },
  };
  return <Context.Provider value={report}>{props.children}</Context.Provider>;
}

const NONE: never[] = [];

const failures = (one: Measurement): Finding[] => one.findings.filter((finding) => finding.severity === "error");

/** Follows the link to the layer table, also where the address names it already. */
function goToLayers() {
  document.getElementById("layers")?.scrollIntoView();
}

/** Null where the setting was estimated but not planned, and where the model has no operations to plan. */
function placementOf(plan: Target["plan"], setting: ComputeUnits): Placement | null {
  const isPlanned = plan !== null && covers(plan) && plan.settings.some((one) => one.compute_units === setting);
  return isPlanned ? new Placement(plan, setting) : null;
}
