import { type ComponentChildren, createContext } from "preact";
import { useContext, useMemo, useState } from "preact/hooks";
import { Placement } from "./data/placement";
import type { DevicePlan, Group, ModelSummary, OpTable, Profile, Setting } from "./data/profile";
import { buildRows, type Rows, tableOf } from "./data/rows";

/** Everything that the views of one result share. `profile` is null where the model was not profiled. */
export interface Report {
  model: ModelSummary;
  profile: Profile | null;
  table: OpTable;
  groups: Group[];
  rows: Rows;
  plans: DevicePlan[];
  /** The plan of the chosen device and setting; null where nothing was planned. */
  placement: Placement | null;
  device: number;
  setting: Setting;
  chooseDevice: (index: number) => void;
  chooseSetting: (setting: Setting) => void;
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

export function ReportProvider(props: { result: Profile | ModelSummary; children: ComponentChildren }) {
  const { result } = props;
  const profile = result.schema === "coremlscope.profile/1" ? result : null;
  const plans = profile?.plans ?? [];
  const [device, chooseDevice] = useState(0);
  const [setting, chooseSetting] = useState<Setting>(plans[0]?.settings[0]?.compute_units ?? "all");
  const [selected, select] = useState<string | null>(null);
  const plan = plans[device] ?? null;
  const table = useMemo(() => tableOf(result), [result]);
  const groups = useMemo(() => profile?.groups ?? [], [profile]);
  const rows = useMemo(() => buildRows(table, groups, plan), [table, groups, plan]);
  const placement = useMemo(() => (plan ? new Placement(plan, setting, table.id) : null), [plan, setting, table]);
  const report: Report = {
    model: profile ? profile.model : (result as ModelSummary),
    profile,
    table,
    groups,
    rows,
    plans,
    placement,
    device,
    setting,
    chooseDevice,
    chooseSetting,
    selected,
    select,
  };
  return <Context.Provider value={report}>{props.children}</Context.Provider>;
}
