import { useEffect, useState } from "preact/hooks";
import type { Job, ServerForm } from "../data/schema";
import { TopBar } from "../ui/topbar";
import { Histories } from "../views/server/histories";
import { Jobs } from "../views/server/jobs";
import { Sweeps } from "../views/server/sweeps";
import { Upload } from "../views/server/upload";

/** Milliseconds until the page asks for changes again after the server refused. */
const RETRY_MS = 5000;

/** The page of `coremlscope serve`: upload, jobs and saved profiles. */
export function ServerPage(props: { result: ServerForm }) {
  const [state, setState] = useState(props.result);
  const [isLost, setLost] = useState(false);
  useEffect(() => {
    let timer = 0;
    let events: EventSource;
    const connect = () => {
      events = new EventSource("events");
      events.addEventListener("state", (event) => setState(JSON.parse(event.data) as ServerForm));
      events.addEventListener("jobs", (event) => {
        const jobs = JSON.parse(event.data) as Job[];
        setState((before) => ({ ...before, jobs }));
      });
      events.onopen = () => setLost(false);
      events.onerror = () => {
        setLost(true);
        if (events.readyState === EventSource.CLOSED) timer = window.setTimeout(connect, RETRY_MS);
      };
    };
    connect();
    return () => {
      clearTimeout(timer);
      events.close();
    };
  }, []);
  return (
    <>
      <TopBar
        brand="coremlscope"
        parts={[
          { id: "upload", title: "Add a model" },
          { id: "profiles", title: "Profiles" },
          ...(state.sweeps.length > 0 ? [{ id: "sweeps", title: "Sweeps" }] : []),
        ]}
      />
      <main>
        <h1 class="hidden">Profiles of models</h1>
        {isLost && (
          <p class="banner" role="alert">
            The server does not respond. It may have been stopped, and the page may be out of date.
          </p>
        )}
        <Upload limit={state.max_upload_bytes} suffixes={state.suffixes} devices={state.devices} onState={setState} />
        <Jobs jobs={state.jobs} onState={setState} />
        <Histories entries={state.profiles} extensible={state.extensible} folder={state.folder} onState={setState} />
        <Sweeps sweeps={state.sweeps} />
      </main>
    </>
  );
}
