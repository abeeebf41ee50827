import type { Entry, Origin } from "./schema";

/** Profiles of one model with times of one kind, the oldest first. */
export interface History {
  key: string;
  model: string;
  /** What the times are times of. */
  label: string;
  /** Null where the profiles hold no time of a prediction. */
  origin: Origin | null;
  entries: Entry[];
}

/**
 * Groups profiles by model and by what their times are times of; the history with the newest profile is first.
 *
 * @param entries The newest first.
 */
export function histories(entries: readonly Entry[]): History[] {
  const found = new Map<string, History>();
  for (const entry of entries) {
    if (entry.problem) continue;
    const origin = entry.predict_s?.origin ?? null;
    const key = [entry.model, entry.label, origin].join("\n");
    const history = found.get(key) ?? { key, model: entry.model, label: entry.label, origin, entries: [] };
    history.entries.unshift(entry);
    found.set(key, history);
  }
  return [...found.values()];
}
