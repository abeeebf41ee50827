import type { Entry, Job, Origin, ServerForm } from "./schema";

/** What a server says when it refuses. */
interface Refusal {
  error: string;
  hint: string;
}

/** Why there is no answer, for a person. */
export class Refused extends Error {}

/** The answer to a question of the page: by default the state of the server. */
export async function ask<Answer extends object = ServerForm>(address: string, method: string, body?: BodyInit): Promise<Answer> {
  let answer: Answer | Refusal;
  try {
    answer = (await (await fetch(address, { method, ...(body !== undefined && { body }) })).json()) as Answer | Refusal;
  } catch {
    throw new Refused("The server does not respond. It may have been stopped.");
  }
  if ("error" in answer) throw new Refused([answer.error, answer.hint].filter(Boolean).join(": "));
  return answer;
}

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

/** The entries that have every word of a search in their names, labels, tags or dates. */
export function search(entries: readonly Entry[], text: string): Entry[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return entries.filter((entry) => {
    const said = [entry.id, entry.model, entry.label, entry.kind, entry.made_at, ...entry.tags].join("\n").toLowerCase();
    return words.every((word) => said.includes(word));
  });
}

/** All tags with the number of entries that have them, the most frequent first. */
export function countTags(entries: readonly Entry[]): [string, number][] {
  const found = new Map<string, number>();
  for (const tag of entries.flatMap((entry) => entry.tags)) found.set(tag, (found.get(tag) ?? 0) + 1);
  return [...found].sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0]));
}

/** The address of the comparison of some entries; the oldest one is the base. */
export function comparison(entries: readonly Entry[], chosen: ReadonlySet<string>): string {
  const ids = entries.filter((entry) => chosen.has(entry.id)).map((entry) => entry.id);
  return `compare?${ids
    .reverse()
    .map((id) => `id=${encodeURIComponent(id)}`)
    .join("&")}`;
}

/** How far a job is within its phase, as a share from 0 to 1; undefined if that is not known. */
export function progress(job: Job): number | undefined {
  return job.total > 0 ? Math.min(1, job.done / job.total) : undefined;
}
