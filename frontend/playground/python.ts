import { type Answer, type Answerer, type Question, type Say, Stopped } from "../src/opening/answers";
import { loadFiles } from "./loading";
import type { Manifest } from "./manifest";

interface Message {
  progress?: string;
  ready?: true;
  failed?: string;
  id?: number;
  answer?: string;
}

interface Waiting {
  resolve: (answer: Answer) => void;
  reject: (error: Error) => void;
}

/** Python in a worker, which starts as soon as its files are loaded, and again after it was stopped. */
export class Python implements Answerer {
  private files: Promise<Map<string, Blob>> | null = null;
  private worker: Promise<Worker> | null = null;
  private readonly waiting = new Map<number, Waiting>();
  private last = 0;

  private say: Say = () => {};

  constructor(private readonly manifest: Manifest) {}

  /** The same Python, which tells what it does. */
  telling(say: Say): this {
    this.say = say;
    return this;
  }

  /** Loads all files; Python then starts by itself. */
  async load(): Promise<Map<string, Blob>> {
    this.files ??= loadFiles(this.manifest, (bytes, total) => this.say("Loading Python", bytes / total));
    const files = await this.files;
    this.worker ??= this.start(files);
    return files;
  }

  ask = (question: Question): Promise<Answer> => this.answer(question, "first");

  askMore = (question: Question): Promise<Answer> => this.answer(question, "every");

  private async answer({ dropped, paths }: Question, chips: "first" | "every"): Promise<Answer> {
    const files = await this.load();
    this.worker ??= this.start(files);
    const worker = await this.worker;
    const id = ++this.last;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      worker.postMessage({ ask: { id, drop: dropped.id, files: dropped.files, paths, chips } });
    });
  }

  /** Ends what is being done. The next question starts Python anew. */
  stop(): void {
    void this.worker?.then((worker) => worker.terminate());
    this.worker = null;
    for (const { reject } of this.waiting.values()) reject(new Stopped("it was stopped"));
    this.waiting.clear();
  }

  private async start(files: ReadonlyMap<string, Blob>): Promise<Worker> {
    const script = files.get("python-worker.js");
    if (!script) throw new Error("the page lacks the script of its worker");
    const worker = new Worker(URL.createObjectURL(new Blob([script], { type: "text/javascript" })), { type: "module" });
    const { loader, module, packages } = this.manifest;
    const ready = new Promise<Worker>((resolve, reject) => {
      worker.addEventListener("message", ({ data }: MessageEvent<Message>) => {
        if (data.progress) this.say(data.progress);
        if (data.ready) resolve(worker);
        if (data.failed) this.fail(new Error(data.failed), reject);
        if (data.id !== undefined && data.answer !== undefined) this.receive(data.id, data.answer);
      });
      worker.addEventListener("error", (event) => this.fail(new Error(event.message || "Python could not be started"), reject));
    });
    const used = Object.fromEntries(files);
    worker.postMessage({ start: { loader, module, packages, files: used } });
    return ready;
  }

  private receive(id: number, answer: string): void {
    this.waiting.get(id)?.resolve(JSON.parse(answer) as Answer);
    this.waiting.delete(id);
  }

  /** Python is not used again after a failure, such as of its memory. */
  private fail(error: Error, reject: (error: Error) => void): void {
    reject(error);
    void this.worker?.then(
      (worker) => worker.terminate(),
      () => {},
    );
    this.worker = null;
    for (const one of this.waiting.values()) one.reject(error);
    this.waiting.clear();
  }
}
