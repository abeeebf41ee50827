import { bytes } from "../format";
import { type Answer, type Answerer, type PredictionRequest, type Question, type Refusal, type Say, Stopped } from "../opening/answers";
import type { Preview } from "./schema";

/** A line of what the server says on a work. */
type Line = { progress: string; done: number; total: number } | { answer: unknown } | Refusal;

/** The phases of a profile in words; others have words of their own. */
const PHASES: Record<string, string> = {
  compile: "Compiling",
  load: "Loading",
  "warm-up": "Warming up",
  predict: "Predicting",
  operations: "Profiling operations",
};
const LOST = { error: "The server does not respond", hint: "it may have been stopped" };

/** A local server, to which models are sent once. */
export class Server implements Answerer {
  private readonly ids = new Map<number, Promise<string | Refusal>>();
  private current = new AbortController();

  constructor(
    private readonly mostBytes: number,
    private readonly say: Say,
  ) {}

  ask = (question: Question): Promise<Answer> => this.work(question, "answer");

  profile = (question: Question): Promise<Answer> => this.work(question, "profile");

  predict = (question: Question, request: PredictionRequest): Promise<Preview | Refusal> => {
    const { files, inputs, resize, rate } = request;
    const head = { path: question.paths[0], inputs, resize, rate_Hz: rate };
    return this.post<Preview>(question, "prediction", head, files, () => {}, new AbortController().signal);
  };

  stop(): void {
    this.current.abort();
    this.current = new AbortController();
  }

  private work(question: Question, what: string): Promise<Answer> {
    return this.post<Answer>(question, what, { paths: question.paths }, [], this.say, this.current.signal);
  }

  private async post<Kind>(
    question: Question,
    what: string,
    head: object,
    files: readonly Blob[],
    say: Say,
    signal: AbortSignal,
  ): Promise<Kind | Refusal> {
    const id = await this.send(question, say, signal);
    if (typeof id !== "string") return id;
    const response = await request(`models/${id}/${what}`, head, files, signal);
    if (!(response instanceof Response)) return response;
    try {
      for await (const line of linesOf(response, signal)) {
        if (!("progress" in line)) return "answer" in line ? (line.answer as Kind) : line;
        say(PHASES[line.progress] ?? line.progress, line.total ? line.done / line.total : undefined);
      }
    } catch (error) {
      if (error instanceof Stopped) throw error;
    }
    return LOST;
  }

  /** The id of what was opened, which is sent the first time. */
  private send(question: Question, say: Say, signal: AbortSignal): Promise<string | Refusal> {
    const { id, files } = question.dropped;
    const size = files.reduce((sum, { file }) => sum + file.size, 0);
    if (size > this.mostBytes)
      return Promise.resolve({
        error: `This has ${bytes(size)}; the limit is ${bytes(this.mostBytes)}`,
        hint: "start the server with a larger --max-upload",
      });
    const sent =
      this.ids.get(id) ??
      (async () => {
        say("Sending the model");
        const head = files.map(({ path, file }) => ({ path, size: file.size }));
        const blobs = files.map(({ file }) => file);
        const response = await request("models", head, blobs, signal);
        return response instanceof Response ? ((await response.json()) as { id: string }).id : response;
      })();
    this.ids.set(id, sent);
    sent.then(
      (found) => typeof found === "string" || this.ids.delete(id),
      () => this.ids.delete(id),
    );
    return sent;
  }
}

/** Sends what is asked on the first line, and files after it; what refuses it is returned. */
async function request(address: string, head: object, files: readonly Blob[], signal: AbortSignal): Promise<Response | Refusal> {
  try {
    const body = new Blob([`${JSON.stringify(head)}\n`, ...files]);
    const response = await fetch(address, { method: "POST", body, signal });
    return response.ok ? response : ((await response.json()) as Refusal);
  } catch {
    if (signal.aborted) throw new Stopped("it was stopped");
    return LOST;
  }
}

/** The lines of a response, as they come; empty ones are signs of life. */
export async function* linesOf(response: Response, signal: AbortSignal): AsyncGenerator<Line> {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  let pending = "";
  try {
    for (;;) {
      const { done, value } = (await reader?.read()) ?? { done: true, value: undefined };
      const lines = (pending + (value ?? "")).split("\n");
      pending = lines.pop() ?? "";
      for (const line of lines) if (line) yield JSON.parse(line) as Line;
      if (done) return;
    }
  } catch (error) {
    if (signal.aborted) throw new Stopped("it was stopped");
    throw error;
  }
}
