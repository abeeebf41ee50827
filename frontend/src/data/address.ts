/** What the address of a report says beyond the report: `?device=M4&units=cpu_only&op=main/12`. */
import { type Filter, NO_FILTER } from "./filter";
import { chipOf, type Target, targetName } from "./profile";
import type { ComputeUnits } from "./schema";
import type { Grouping, Measure } from "./tree";

/** The choices that an address carries. */
export interface Choices {
  target: Target | null;
  setting: ComputeUnits;
  /** The id of the selected operation. */
  selected: string | null;
  filter: Filter;
  /** How the layers are shown. */
  layers: LayerView;
}

/** How the layers are shown: as a table, or as a tree of groups. */
export interface LayerView {
  view: "table" | "tree" | "icicle" | "flame";
  by: Grouping;
  /** Empty: the one that matters most. */
  measure: Measure | "";
}

export const TABLE: LayerView = { view: "table", by: "module", measure: "" };
const VIEWS: readonly LayerView["view"][] = ["table", "tree", "icicle", "flame"];
const GROUPINGS: readonly Grouping[] = ["module", "block", "type", "kernel"];
const MEASURES: readonly Measure[] = ["estimated", "measured", "planned", "flops", "weights"];

/** Reads choices; what the report does not have is left at its first target and setting. */
export function readAddress(query: string, targets: readonly Target[], isKnown: (id: string) => boolean): Choices {
  const values = new URLSearchParams(query);
  const device = values.get("device");
  const target =
    targets.find((one) => targetName(one) === device) ??
    targets.find((one) => device && [one.device, chipOf(one)].includes(device)) ??
    targets[0] ??
    null;
  const setting = target?.settings.find((one) => one === values.get("units")) ?? target?.settings[0] ?? "all";
  const op = values.get("op");
  const filter = Object.fromEntries(KEYS.map((key) => [key, values.get(`filter-${key}`) ?? ""])) as unknown as Filter;
  const layers: LayerView = {
    view: VIEWS.find((one) => one === values.get("layers")) ?? TABLE.view,
    by: GROUPINGS.find((one) => one === values.get("by")) ?? TABLE.by,
    measure: MEASURES.find((one) => one === values.get("width")) ?? TABLE.measure,
  };
  return { target, setting, selected: op !== null && isKnown(op) ? op : null, filter, layers };
}

/** The query of choices: only what differs from the first target, its first setting and no filter. */
export function writeAddress(choices: Choices, targets: readonly Target[]): string {
  const { target, setting, selected, filter, layers } = choices;
  const values = new URLSearchParams();
  if (target && target !== targets[0]) values.set("device", targetName(target));
  if (target && setting !== target.settings[0]) values.set("units", setting);
  if (selected !== null) values.set("op", selected);
  for (const key of KEYS) if (filter[key]) values.set(`filter-${key}`, filter[key]);
  if (layers.view !== TABLE.view) values.set("layers", layers.view);
  if (layers.by !== TABLE.by) values.set("by", layers.by);
  if (layers.measure) values.set("width", layers.measure);
  const query = values.toString();
  return query && `?${query}`;
}

const KEYS = Object.keys(NO_FILTER) as (keyof Filter)[];
