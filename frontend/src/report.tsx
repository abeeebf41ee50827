import { type ComponentChildren, createContext } from "preact";
import { useContext, useMemo, useState } from "preact/hooks";
import { Placement } from "./data/placement";
import { type Remark, remarksOf, type Target, targetsOf } from "./data/profile";
import { buildRows, type Rows } from "./data/rows";
import type {
  ComputeUnits,
  Estimate,
  Group,
  Kernel,
  Measurement,
  ModelForm,
  ModelSummary,
  OpTable,
  Profile,
  ProfileForm,
} from "./data/schema";

/** Everything that the views of one result share. Every part of a profile may be absent. */
export interface Report {
  model: ModelSummary;
  /** Null where the page shows a model only. */
  profile: Profile | null;
  table: OpTable;
  rows: Rows;
  remarks: Remark[];
  measurements: Measurement[];
  /** The chosen measurement; null where nothing was measured. */
  measurement: Measurement | null;
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
  /** The estimate for the chosen device and setting; null where it was not estimated. */
  estimate: Estimate | null;
  chooseMeasurement: (measurement: Measurement) => void;
  chooseTarget: (target: Target, setting?: ComputeUnits) => void;
  /** The id of the selected operation, whose details are open. Any view may set it. */
  selected: string | null;
  select: (id: string | null) => void;
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
  const measurements = profile?.measurements ?? [];
  const targets = useMemo(() => (profile ? targetsOf(profile) : []), [profile]);
  const remarks = useMemo(() => (profile ? remarksOf(profile) : []), [profile]);
  const [measured, chooseMeasurement] = useState<Measurement | null>(measurements[0] ?? null);
  const [chosen, choose] = useState<{ target: Target | null; wanted: ComputeUnits }>({
    target: targets[0] ?? null,
    wanted: targets[0]?.settings[0] ?? "all",
  });
  const [selected, select] = useState<string | null>(null);
  const { target, wanted } = chosen;
  const setting = target && !target.settings.includes(wanted) ? (target.settings[0] ?? wanted) : wanted;
  const plan = target?.plan ?? null;
  const table = result.ops;
  const kernels = profile?.kernels ?? NONE;
  const rows = useMemo(() => buildRows(table, measured, plan, kernels), [table, measured, plan, kernels]);
  const placement = useMemo(() => placementOf(plan, setting, table), [plan, setting, table]);
  const report: Report = {
    model: result.schema === "coremlscope.profile/2" ? result.model : result,
    profile,
    table,
    rows,
    remarks,
    measurements,
    measurement: measured,
    groups: measured?.groups ?? NONE,
    kernels,
    targets,
    target,
    setting,
    placement,
    estimate: target?.estimates.get(setting) ?? null,
    chooseMeasurement,
    chooseTarget: (one, setting) => choose({ target: one, wanted: setting ?? wanted }),
    selected,
    select,
  };
  return <Context.Provider value={report}>{props.children}</Context.Provider>;
}

const NONE: never[] = [];

/** Null where the setting was estimated but not planned. */
function placementOf(plan: Target["plan"], setting: ComputeUnits, table: OpTable): Placement | null {
  return plan?.settings.some((one) => one.compute_units === setting) ? new Placement(plan, setting, table) : null;
}
