import type { Entry } from "./schema";

/** Profiles of one model on one host, the oldest first. */
export interface History {
  model: string;
  host: string;
  entries: Entry[];
}

/** Groups profiles by model and host; the history with the newest profile is first. */
export function histories(entries: readonly Entry[]): History[] {
  const found = new Map<string, History>();
  for (const entry of [...entries].sort((a, b) => a.saved - b.saved)) {
    if (entry.problem) continue;
    const key = `${entry.model}\n${entry.host}`;
    const history = found.get(key) ?? { model: entry.model, host: entry.host, entries: [] };
    history.entries.push(entry);
    found.set(key, history);
  }
  const newest = (history: History) => history.entries.at(-1)?.saved ?? 0;
  return [...found.values()].sort((a, b) => newest(b) - newest(a));
}
