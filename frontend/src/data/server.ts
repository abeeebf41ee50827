/** The state of `coremlscope serve`: `App.state` in `server/app.py`. */
export interface ServerState {
  schema: "coremlscope.server/1";
  folder: string;
  max_upload_bytes: number;
  profiles: Entry[];
  jobs: Job[];
}

/** A saved profile; `problem` says why it cannot be shown. */
export interface Entry {
  id: string;
  /** Seconds since 1970. */
  saved: number;
  model: string;
  kind: string;
  host: string;
  iterations: number;
  median_s: number;
  low_s: number;
  high_s: number;
  load_s: number;
  operations: number;
  problem: string;
}

export interface Job {
  id: number;
  model: string;
  status: "waiting" | "running" | "done" | "failed" | "cancelled";
  phase: string;
  done: number;
  total: number;
  profile: string;
  error: string;
  hint: string;
}

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
