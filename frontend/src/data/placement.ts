import { totalMs } from "./profile";
import type { ChoiceColumns, ComputeUnit, ComputeUnits, Plan, Reason, SettingPlan, Undecided } from "./schema";
import { ALLOWED, UNDECIDED_WORDS, UNIT_NAMES } from "./words";

/** `runs` there; `may` as well, by the evidence; `can` but does not; `cannot`; `unknown`: no rule covers it; `barred`: the setting forbids the unit. */
export type Mark = "runs" | "may" | "can" | "cannot" | "unknown" | "barred";

/** Why an operation does not run on a unit, or what would help where it runs. */
export type Remedy = Pick<Reason, "unit" | "rule" | "text" | "fix"> & Partial<Pick<Reason, "confidence" | "source">>;

/** The rule id of a reason that states the cost of a detour. */
export const COST_RULE = "plan-cost";
/** The rule id of messages that Core ML itself wrote. */
export const CORE_ML_RULE = "core-ml";
const TIE_MS = 1e-9;

/** A plan under one setting, queried by the place of an operation in it. */
export class Placement {
  readonly setting: SettingPlan;
  private readonly choices: ChoiceColumns;
  private readonly backendNames: string[];
  private readonly totals = new Map<string, number>();
  /** The graph of each operation: `main/7/body` for `main/7/body/3`; inserted operations belong to their function. */
  private readonly graphs: string[];
  /** Planned cost of the whole in milliseconds; null where the planner gives no costs. */
  readonly totalMs: number | null;

  constructor(
    readonly plan: Plan,
    readonly name: ComputeUnits,
  ) {
    const setting = plan.settings.find((one) => one.compute_units === name) ?? plan.settings[0];
    if (!setting) throw new Error(`the plan for ${plan.device} holds no setting`);
    this.setting = setting;
    this.choices = plan.ops.choices[setting.compute_units] ?? { backend: [], weight: [], detour_ms: {}, alternatives: {} };
    this.backendNames = Object.keys(plan.ops.backends);
    this.totalMs = totalMs(plan, setting);
    const inserted = new Map(plan.ops.inserted.map((op) => [op.id, op.function]));
    this.graphs = plan.ops.id.map((id) => inserted.get(id) ?? id.slice(0, id.lastIndexOf("/")));
    this.graphs.forEach((graph, column) => {
      this.totals.set(graph, (this.totals.get(graph) ?? 0) + (this.costMs(column) ?? 0));
    });
  }

  /** The unit that runs it; null where it is unknown. */
  unit(column: number): ComputeUnit | null {
    const backend = this.backendName(column);
    return backend === null ? null : (this.plan.ops.backends[backend] ?? null);
  }

  backendName(column: number): string | null {
    return this.backendNames[this.choices.backend[column] ?? -1] ?? null;
  }

  /** Planned cost in milliseconds where it runs. */
  costMs(column: number): number | null {
    const backend = this.backendName(column);
    return backend === null ? null : (this.plan.ops.cost_ms[backend]?.[column] ?? null);
  }

  /** Its share of the planned cost of its graph, as in Core ML's own plans. */
  weight(column: number): number | null {
    if (this.choices.weight.length > 0) return this.choices.weight[column] ?? null;
    const cost = this.costMs(column);
    const total = this.totals.get(this.graphs[column] ?? "");
    return cost === null || !total ? null : cost / total;
  }

  mark(column: number, unit: ComputeUnit): Mark {
    if (!ALLOWED[this.name].includes(unit)) return "barred";
    if (this.unit(column) === unit) return "runs";
    if (this.alternative(column, unit)) return "may";
    const supported = this.plan.ops.supported[unit]?.[column];
    return supported === 1 ? "can" : supported === 0 ? "cannot" : "unknown";
  }

  /** Why the evidence does not decide between the chosen unit and this one; null where it does. */
  alternative(column: number, unit: ComputeUnit): Undecided | null {
    return this.choices.alternatives[unit]?.[column] ?? null;
  }

  /** Why it may run on this unit as well, in words; empty where the evidence decides. */
  doubt(column: number, unit: ComputeUnit): string {
    const why = this.alternative(column, unit);
    return why === null ? "" : UNDECIDED_WORDS[why];
  }

  /** The rules that keep it from allowed units other than the chosen one. */
  rules(column: number): Reason[] {
    const chosen = this.unit(column);
    return this.listed(this.plan.ops.why[column]).filter((reason) => reason.unit !== chosen && ALLOWED[this.name].includes(reason.unit));
  }

  /** Why it does not run on the other allowed units; the Neural Engine first. */
  reasons(column: number): Remedy[] {
    const chosen = this.unit(column);
    const allowed = ALLOWED[this.name].filter((unit) => unit !== chosen);
    const found: Remedy[] = this.rules(column);
    for (const unit of allowed) {
      const more = this.choices.detour_ms[unit]?.[column];
      if (more != null && chosen) found.push(this.costReason(column, unit, more));
    }
    return found.sort((a, b) => rank(a.unit) - rank(b.unit));
  }

  /** The reasons that concern a unit that is usually faster than the chosen one. */
  obstacles(column: number): Remedy[] {
    const chosen = this.unit(column);
    return this.reasons(column).filter((reason) => chosen === null || rank(reason.unit) < rank(chosen));
  }

  /** Rules known by anecdote only that would take it from a unit; the plan does not apply them. */
  doubts(column: number): Reason[] {
    return this.listed(this.plan.ops.doubts[column]);
  }

  /** What would make it faster where it runs. */
  advice(column: number): Reason[] {
    return this.listed(this.plan.ops.advice[column]);
  }

  private listed(indices: readonly number[] = []): Reason[] {
    return indices.map((index) => this.plan.ops.reasons[index]).filter((reason) => !!reason);
  }

  private costReason(column: number, unit: ComputeUnit, moreMs: number): Remedy {
    const there = Math.min(
      ...Object.entries(this.plan.backends)
        .filter(([, owner]) => owner === unit)
        .map(([backend]) => this.plan.ops.cost_ms[backend]?.[column] ?? Infinity),
    );
    const here = this.costMs(column) ?? 0;
    const able = `possible on the ${UNIT_NAMES[unit]}`;
    let text = `${able} for less or the same, but launches and changes of unit cost more`;
    if (moreMs < TIE_MS) text = `${able}: the whole plan would cost the same`;
    else if (there > here + TIE_MS) text = `${able}, but costs more there`;
    return { unit, rule: COST_RULE, text, fix: "" };
  }
}

const rank = (unit: ComputeUnit): number => ["neural_engine", "gpu", "cpu"].indexOf(unit);
