import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Page } from "../page";
import type { Payload } from "../payload";
import { Problem } from "../ui/problem";
import { BarActions } from "../ui/topbar";
import { Predicting } from "../views/preview/predicting";
import type { Answer, Answerer, ListedModel, PredictionRequest, Question, Refusal, Say } from "./answers";
import { Stopped } from "./answers";
import { type Dropped, readDrop } from "./dropped";
import { Start, type StartText } from "./start";

/** A model that a person without one can open. */
export interface Example {
  title: string;
  text: string;
  /** Names of files; two are compared. */
  files: readonly string[];
  /** The example next to the same one with its mistake mended. */
  fix?: Example;
}

interface Shown extends Question {
  /** The example that it is; none for a person's own model. */
  example?: Example | undefined;
  title: string;
  payload: Payload;
  /** Changes with each payload, so that its page is made anew; its place is in the address. */
  version: number;
}

const TITLE = "coremlscope: where does this Core ML model run?";

/** The page that opens models: the start page, and the page of what is open. */
export function Opening(props: {
  /** Makes what answers. It is made once. */
  answerer: (say: Say) => Answerer;
  text: StartText;
  examples?: readonly Example[];
  /** The names of the devices that answers are for, where these are known before. */
  devices?: readonly string[];
  /** Reads the files of an example. */
  readExample?: (example: Example) => Promise<Dropped>;
  /** Begins to load what answers. */
  begin?: () => Promise<unknown>;
  /** More of the start page. */
  children?: ComponentChildren;
}) {
  const { begin, readExample } = props;
  const [status, setStatus] = useState<{ text: string; share?: number | undefined }>({ text: "Opening" });
  const [isWorking, setWorking] = useState(false);
  const [shown, show] = useState<Shown | null>(null);
  const [problem, setProblem] = useState<Refusal | null>(null);
  const [models, setModels] = useState<{ dropped: Dropped; listed: ListedModel[] } | null>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: what answers is made once.
  const answerer = useMemo(() => props.answerer((text, share) => setStatus({ text, share })), []);

  useEffect(() => {
    begin?.().catch((error: Error) =>
      setProblem({ error: `Python could not be loaded: ${error.message}`, hint: "check the network, and load the page again" }),
    );
    // A page that is loaded again shows nothing yet; a device and a setting in its address are those of the next model.
    history.replaceState(null, "", location.pathname + viewOf(location.search));
    const leave = () => {
      if (history.state?.shows !== "page") show(null);
    };
    addEventListener("popstate", leave);
    return () => removeEventListener("popstate", leave);
  }, [begin]);
  useEffect(() => {
    document.title = shown ? `${shown.title} – coremlscope` : TITLE;
  }, [shown]);

  const wanted = useRef("");
  const present = (answer: Answer, question: Question & Pick<Shown, "example">, isFirst: boolean): boolean => {
    if ("error" in answer) setProblem(answer);
    else if ("models" in answer) setModels({ dropped: question.dropped, listed: answer.models });
    else {
      if (isFirst) {
        wanted.current = viewOf(location.search);
        history.pushState({ shows: "page" }, "", location.pathname + wanted.current);
        scrollTo(0, 0);
      } else {
        // The first answer may lack the device that the address named; what was chosen since then stays.
        const view = viewOf(`${wanted.current}&${location.search.slice(1)}`);
        history.replaceState(history.state, "", location.pathname + view + location.hash);
      }
      if (isFirst || history.state?.shows === "page")
        show({ ...question, title: answer.title, payload: answer.payload, version: performance.now() });
      return isFirst && answer.more;
    }
    return false;
  };

  const turn = useRef(0);
  const asked = useRef(false);
  /** Does one work at a time: what is being done for another one ends. */
  const work = async (steps: () => Promise<void>) => {
    if (asked.current) answerer.stop();
    const own = ++turn.current;
    asked.current = true;
    setProblem(null);
    setModels(null);
    setWorking(true);
    try {
      await steps();
    } catch (error) {
      if (!(error instanceof Stopped)) setProblem({ error: (error as Error).message, hint: "try it again" });
    }
    if (own !== turn.current) return;
    asked.current = false;
    setWorking(false);
  };
  const open = async (dropped: Dropped, paths: readonly string[] = dropped.names, example?: Example) => {
    if (dropped.files.length === 0) return;
    if (history.state?.shows === "page") history.back();
    const question = { dropped, paths, ...(example && { example }) };
    await work(async () => {
      const hasMore = present(await answerer.ask(question), question, true);
      if (hasMore && answerer.askMore) present(await answerer.askMore(question), question, false);
    });
  };
  const openExample = async (example: Example) => {
    setWorking(true);
    if (readExample) {
      const dropped = await readExample(example);
      await open(dropped, dropped.names, example);
    }
  };
  useDropped((dropped) => void open(dropped));
  const stop = () => {
    answerer.stop();
    setWorking(false);
  };

  const progress = isWorking && <Progress status={status} onStop={stop} />;
  if (!shown)
    return (
      <Start
        text={props.text}
        problem={problem}
        models={models}
        progress={progress}
        examples={props.examples ?? []}
        devices={props.devices ?? []}
        onOpen={(dropped, paths) => void open(dropped, paths)}
        onExample={(example) => void openExample(example)}
      >
        {props.children}
      </Start>
    );
  const { profile, predict } = answerer;
  const isModel = shown.paths.length === 1 && !shown.paths[0]?.endsWith(".json");
  const actions = (
    <span class="open-actions">
      <button type="button" class="quiet" onClick={() => history.back()}>
        Open another
      </button>
      {shown.example?.fix && (
        <button type="button" class="quiet" onClick={() => void openExample(shown.example?.fix as Example)}>
          See it mended
        </button>
      )}
      {!isWorking && profile && isModel && (
        <button type="button" class="quiet" onClick={() => void work(async () => void present(await profile(shown), shown, false))}>
          Run it here
        </button>
      )}
      {progress}
    </span>
  );
  const predicts = predict && isModel ? (request: PredictionRequest) => predict(shown, request) : null;
  return (
    <BarActions.Provider value={actions}>
      <Predicting.Provider value={predicts}>
        {problem && <Problem {...problem} />}
        <Page key={shown.version} payload={shown.payload} />
      </Predicting.Provider>
    </BarActions.Provider>
  );
}

/** The device and the setting of an address, which a view is shared by; never anything of a model. */
function viewOf(query: string): string {
  const values = new URLSearchParams(query);
  const kept = ["device", "units"].flatMap((key) =>
    values
      .getAll(key)
      .slice(-1)
      .map((value) => [key, value]),
  );
  const text = new URLSearchParams(kept).toString();
  return text && `?${text}`;
}

/** Takes files that are dropped anywhere: elsewhere the browser would leave the page to show them. */
function useDropped(open: (dropped: Dropped) => void): void {
  useEffect(() => {
    const allow = (event: DragEvent) => event.preventDefault();
    const take = (event: DragEvent) => {
      // A part of the page has taken it, such as an input of the model.
      if (event.defaultPrevented) return;
      event.preventDefault();
      if (event.dataTransfer) void readDrop(event.dataTransfer).then(open);
    };
    addEventListener("dragover", allow);
    addEventListener("drop", take);
    return () => {
      removeEventListener("dragover", allow);
      removeEventListener("drop", take);
    };
  }, [open]);
}

function Progress(props: { status: { text: string; share?: number | undefined }; onStop: () => void }) {
  const { text, share } = props.status;
  return (
    <span class="open-progress" role="status">
      <span>{text} …</span>
      <progress aria-label={text} {...(share !== undefined && { value: share })} />
      <button type="button" class="quiet" onClick={props.onStop}>
        Stop
      </button>
    </span>
  );
}
