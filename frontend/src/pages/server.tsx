import { useEffect, useState } from "preact/hooks";
import type { ServerForm } from "../data/schema";
import { ThemeSwitch } from "../theme";
import { Histories } from "../views/server/histories";
import { Jobs } from "../views/server/jobs";
import { Upload } from "../views/server/upload";

/** Polling intervals in milliseconds, with and without unfinished jobs. */
const [BUSY_MS, IDLE_MS] = [500, 5000];

/** The page of `coremlscope serve`: upload, jobs and saved profiles. */
export function ServerPage(props: { result: ServerForm }) {
  const [state, setState] = useState(props.result);
  const [isLost, setLost] = useState(false);
  const isBusy = state.jobs.some((job) => job.status === "waiting" || job.status === "running");
  const interval = isBusy ? BUSY_MS : IDLE_MS;
  useEffect(() => {
    let timer = 0;
    let isStopped = false;
    const ask = async () => {
      try {
        const response = await fetch("state");
        if (!response.ok) throw new Error(response.statusText);
        setState((await response.json()) as ServerForm);
        setLost(false);
      } catch {
        setLost(true);
      }
      if (!isStopped) timer = window.setTimeout(() => void ask(), interval);
    };
    timer = window.setTimeout(() => void ask(), interval);
    return () => {
      isStopped = true;
      clearTimeout(timer);
    };
  }, [interval]);
  return (
    <>
      <div class="topbar">
        <a class="brand" href="#top">
          coremlscope
        </a>
        <nav aria-label="Parts of the page">
          <a href="#upload">Add a model</a>
          <a href="#profiles">Profiles</a>
        </nav>
        <ThemeSwitch />
      </div>
      <main>
        {isLost && (
          <p class="banner" role="alert">
            The server does not respond. It may have been stopped, and the page may be out of date.
          </p>
        )}
        <Upload limit={state.max_upload_bytes} suffixes={state.suffixes} onState={setState} />
        <Jobs jobs={state.jobs} onState={setState} />
        <Histories entries={state.profiles} folder={state.folder} />
      </main>
    </>
  );
}
