import { bytes, duration } from "../format";
import {
  type Bound,
  type ComputeUnit,
  type ComputeUnits,
  type Estimate,
  type Finding,
  KIND_NAMES,
  type Proposal,
  type Status,
  type Undecided,
} from "./schema";

/** The display name of one of Apple's model types. */
export const kindName = (kind: string): string => KIND_NAMES[kind] ?? kind;

/** Whether Core ML plans models of this kind: programs, networks and pipelines that contain them. */
export const isPlanned = (kind: string): boolean => /^(mlProgram|coreAIProgram|neuralNetwork|pipeline)/.test(kind);

/** Why the evidence does not decide between two units. */
export const UNDECIDED_WORDS: Record<Undecided, string> = {
  tie: "the plan costs the same there",
  rates: "at other likely speeds the plan goes there",
  unpublished: "it runs there too, and how the framework chooses is not published",
};

export const UNIT_NAMES: Record<ComputeUnit, string> = { cpu: "CPU", gpu: "GPU", neural_engine: "Neural Engine" };
export const UNIT_SHORT: Record<ComputeUnit, string> = { cpu: "CPU", gpu: "GPU", neural_engine: "NE" };

export const SETTING_NAMES: Record<ComputeUnits, string> = {
  all: "All",
  cpu_and_ne: "CPU + NE",
  cpu_and_gpu: "CPU + GPU",
  cpu_only: "CPU only",
};

/** The name of a setting; runtimes may have settings of their own. */
export const settingName = (setting: string): string => (setting in SETTING_NAMES ? SETTING_NAMES[setting as ComputeUnits] : setting);

/** What operations do that Core ML adds to a program, and that no author knows by their types. */
const ADDED_OPS: Record<string, string> = {
  tensor_buffer_to_tensor: "copy of the inputs",
  tensor_to_tensor_buffer: "copy of the outputs",
  classify: "choice of the class label",
};

export const opWords = (type: string): string => ADDED_OPS[type] ?? type;

/** The units that each setting allows. */
export const ALLOWED: Record<ComputeUnits, ComputeUnit[]> = {
  all: ["cpu", "gpu", "neural_engine"],
  cpu_and_ne: ["cpu", "neural_engine"],
  cpu_and_gpu: ["cpu", "gpu"],
  cpu_only: ["cpu"],
};

/** The status of an operation in the measuring engine. */
export const STATUS_WORDS: Record<Status, string> = {
  timed: "timed alone",
  fused: "timed together with others",
  inside: "ran inside a loop or branch, whose time includes it",
  folded: "folded before run time",
  "not run": "not run",
  unattributed: "not found in the engine's graph",
};

/** Findings by severity. */
export const SEVERITY_WORDS: Record<Finding["severity"], string> = { error: "Error", warning: "Warning", info: "Note" };

/** What an estimated time waits for, as in `render/words.py`. */
export const BOUND_WORDS: Record<Bound, string> = {
  compute: "arithmetic",
  weights: "weights",
  activations: "activations",
  dispatch: "launches",
  switches: "switches",
};

/** What a change gains: `962 µs → 680 µs`; what it makes smaller where it saves no time. */
export function gainText({ before_s: before, after, saved_bytes: saved }: Proposal): string {
  if (after && before !== null) return `${duration(before)} → ${duration(after.value)}`;
  return saved > 0 ? `${bytes(saved)} less` : "";
}

/** What an estimate is based on: the user's own measurements, published ones of its chip, or those of others. */
export function basisText({ own, basis }: Pick<Estimate, "own" | "basis">): string {
  if (!own) return basis;
  return `calibrated on your ${own.measurements} measurement${own.measurements === 1 ? "" : "s"}`;
}
