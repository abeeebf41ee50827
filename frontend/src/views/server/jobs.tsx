import type { Job, ServerForm } from "../../data/schema";
import { ask, progress } from "../../data/server";
import { Hint } from "../../ui/hint";
import { Section } from "../../ui/section";

const WORDS: Record<Job["status"], string> = {
  waiting: "waiting",
  running: "running",
  done: "done",
  failed: "failed",
  cancelled: "cancelled",
};

/** The phases of a profile in words; others have words of their own. */
const PHASES: Record<string, string> = {
  compile: "compiling",
  load: "loading",
  "warm-up": "warming up",
  predict: "predicting",
  operations: "profiling operations",
};

/** The phase of a job, with the repetitions and the percentage that are done. */
function stage(job: Job): string {
  const done = progress(job);
  return `${PHASES[job.phase] ?? job.phase} ${job.done} of ${job.total}${done === undefined ? "" : `, ${Math.floor(done * 100)} %`}`;
}

/** The waiting and running jobs, and the outcome of the last ones. */
export function Jobs(props: { jobs: readonly Job[]; onState: (state: ServerForm) => void }) {
  if (!props.jobs.length) return null;
  const cancel = async (job: Job) => {
    await ask(`jobs/${job.id}`, "DELETE").then(props.onState, () => {});
  };
  return (
    <Section id="jobs" title="Jobs">
      <ul class="jobs">
        {props.jobs.map((job) => (
          <li key={job.id} class={`job job-${job.status}`}>
            <span class="job-name">{job.model}</span>
            <span class="job-state" aria-live="polite">
              {job.status === "running" && job.phase ? stage(job) : WORDS[job.status]}
            </span>
            {job.status === "running" && <progress aria-label={`${job.model}: ${job.phase}`} value={progress(job)} />}
            {(job.status === "running" || job.status === "waiting") && (
              <button type="button" class="quiet" onClick={() => void cancel(job)}>
                Cancel
              </button>
            )}
            {job.profile && <a href={`profiles/${encodeURIComponent(job.profile)}`}>Open the report</a>}
            {job.error && (
              <span class="job-error">
                {job.error}
                {job.hint && (
                  <span class="job-hint">
                    → <Hint text={job.hint} />
                  </span>
                )}
              </span>
            )}
          </li>
        ))}
      </ul>
    </Section>
  );
}
