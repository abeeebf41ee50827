import { render } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { layOutWith } from "../src/layout/client";
import { answerLayouts } from "../src/layout/worker";
import { Page } from "../src/page";
import type { Payload } from "../src/payload";
import { type Dropped, droppedOf, readDrop } from "./dropped";
import { type Example, type Manifest, readManifest } from "./manifest";
import { type Answer, type ListedModel, Python, Stopped } from "./python";
import { Start } from "./start";
import "./playground.css";

interface Shown {
  title: string;
  payload: Payload;
  /** Changes with each payload, so that its page is made anew; its place is in the address. */
  version: number;
}

interface Status {
  text: string;
  share?: number | undefined;
}

const TITLE = "coremlscope: where does this Core ML model run?";

function Playground(props: { manifest: Manifest }) {
  const { manifest } = props;
  const [status, setStatus] = useState<Status>({ text: "Loading Python", share: 0 });
  const [isWorking, setWorking] = useState(false);
  const [shown, show] = useState<Shown | null>(null);
  const [problem, setProblem] = useState<{ error: string; hint: string } | null>(null);
  const [models, setModels] = useState<{ dropped: Dropped; listed: ListedModel[] } | null>(null);
  const [picture, setPicture] = useState<string | null>(null);
  const python = useMemo(() => new Python(manifest, (text, share) => setStatus({ text, share })), [manifest]);

  useEffect(() => {
    python.load().then(
      (files) => {
        const shot = files.get("report.png");
        if (shot) setPicture(URL.createObjectURL(shot));
        return files.get("playground.js")?.text().then(layOutWith);
      },
      (error: Error) =>
        setProblem({ error: `Python could not be loaded: ${error.message}`, hint: "check the network, and load the page again" }),
    );
    // A page that is loaded again shows nothing yet.
    history.replaceState(null, "", location.pathname);
    const leave = () => {
      if (history.state?.shows !== "page") show(null);
    };
    addEventListener("popstate", leave);
    return () => removeEventListener("popstate", leave);
  }, [python]);
  useEffect(() => {
    document.title = shown ? `${shown.title} – coremlscope` : TITLE;
  }, [shown]);

  const present = (answer: Answer, dropped: Dropped, isFirst: boolean): boolean => {
    if ("error" in answer) setProblem(answer);
    else if ("models" in answer) setModels({ dropped, listed: answer.models });
    else {
      if (isFirst) {
        history.pushState({ shows: "page" }, "", location.pathname);
        scrollTo(0, 0);
      }
      if (isFirst || history.state?.shows === "page") show({ title: answer.title, payload: answer.payload, version: performance.now() });
      return isFirst && answer.more;
    }
    return false;
  };

  const turn = useRef(0);
  const asked = useRef(false);
  const open = async (dropped: Dropped, paths: readonly string[] = dropped.names) => {
    if (dropped.files.length === 0) return;
    // One model at a time: what is being done for another ends, and its report is left.
    if (asked.current) python.stop();
    const own = ++turn.current;
    asked.current = true;
    if (history.state?.shows === "page") history.back();
    setProblem(null);
    setModels(null);
    setWorking(true);
    try {
      const first = await python.ask({ dropped, paths, chips: "first" });
      if (present(first, dropped, true)) present(await python.ask({ dropped, paths, chips: "every" }), dropped, false);
    } catch (error) {
      if (!(error instanceof Stopped)) setProblem({ error: `Python failed: ${(error as Error).message}`, hint: "try it again" });
    }
    if (own !== turn.current) return;
    asked.current = false;
    setWorking(false);
  };
  const openExample = async (example: Example) => {
    setWorking(true);
    const files = await python.load();
    await open(droppedOf(example.files.map((name) => ({ path: name.replace(/^.*\//, ""), file: files.get(name) ?? new Blob() }))));
  };
  // Anywhere on the page, also on a report: elsewhere the browser would leave the page to show the file.
  const latest = useRef(open);
  latest.current = open;
  useEffect(() => {
    const allow = (event: DragEvent) => event.preventDefault();
    const take = (event: DragEvent) => {
      event.preventDefault();
      if (event.dataTransfer) void readDrop(event.dataTransfer).then((dropped) => latest.current(dropped));
    };
    addEventListener("dragover", allow);
    addEventListener("drop", take);
    return () => {
      removeEventListener("dragover", allow);
      removeEventListener("drop", take);
    };
  }, []);
  const stop = () => {
    python.stop();
    setWorking(false);
  };

  return (
    <>
      {isWorking && <Progress status={status} onStop={stop} />}
      {shown ? (
        <Page key={shown.version} payload={shown.payload} />
      ) : (
        <Start
          problem={problem}
          models={models}
          examples={manifest.examples}
          docs={manifest.docs}
          picture={picture}
          onOpen={(dropped, paths) => void open(dropped, paths)}
          onExample={(example) => void openExample(example)}
        />
      )}
      {shown && (
        <button type="button" class="quiet open-again" onClick={() => history.back()}>
          Open another model
        </button>
      )}
    </>
  );
}

function Progress(props: { status: Status; onStop: () => void }) {
  const { text, share } = props.status;
  return (
    <div class="open-progress" role="status">
      <span>{text} …</span>
      <progress aria-label={text} {...(share !== undefined && { value: share })} />
      <button type="button" class="quiet" onClick={props.onStop}>
        Stop
      </button>
    </div>
  );
}

// The same script is the worker's that lays out graphs, which has no document.
const root = globalThis.document?.getElementById("app");
if (root) render(<Playground manifest={readManifest()} />, root);
else if (!globalThis.document) answerLayouts(self as unknown as Worker);
