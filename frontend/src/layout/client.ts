import type { GraphShape, Positions } from "./shapes";
import { answerLayouts, type LayoutAnswer, type LayoutRequest } from "./worker";

/** The text of the page's script: it is also the worker's, so that the page needs no other file. */
let script = globalThis.document?.currentScript?.textContent ?? "";

/** Names the script of workers for a page whose own is in a file. */
export function layOutWith(text: string): void {
  script = text;
}

type Port = Pick<Worker, "postMessage" | "addEventListener">;
let port: Port | null = null;
let last = 0;
const waiting = new Map<number, { request: LayoutRequest; resolve: (positions: Positions | null) => void }>();

/** Lays a graph out in a worker; null where that fails. */
export function requestLayout(shape: GraphShape): Promise<Positions | null> {
  return new Promise((resolve) => {
    const request = { id: ++last, shape };
    waiting.set(request.id, { request, resolve });
    port ??= listened(inWorker() ?? inPage());
    port.postMessage(request);
  });
}

function listened(to: Port): Port {
  to.addEventListener("message", (event) => {
    const { id, positions } = (event as MessageEvent<LayoutAnswer>).data;
    waiting.get(id)?.resolve(positions);
    waiting.delete(id);
  });
  return to;
}

/** Null where the browser has no workers. One that it does not start is replaced by the page. */
function inWorker(): Port | null {
  if (!script || !globalThis.Worker) return null;
  const worker = new Worker(URL.createObjectURL(new Blob([script], { type: "text/javascript" })));
  worker.addEventListener("error", () => {
    worker.terminate();
    port = listened(inPage());
    for (const { request } of waiting.values()) port.postMessage(request);
  });
  return worker;
}

/** Answers in the page itself, which waits meanwhile. */
function inPage(): Port {
  const { port1, port2 } = new MessageChannel();
  answerLayouts(port2);
  port1.start();
  port2.start();
  return port1;
}
