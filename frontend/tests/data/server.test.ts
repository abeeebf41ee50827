import { describe, expect, it, vi } from "vitest";
import { Server } from "../../src/data/server";
import { droppedOf } from "../../src/opening/dropped";

const QUESTION = { dropped: droppedOf([{ path: "m.mlmodel", file: new Blob(["abc"]) }]), paths: ["m.mlmodel"] };

/** A server that answers requests in turn, and the requests that it got. */
function server(...answers: [status: number, text: string][]) {
  const requests: [address: string, body: string][] = [];
  vi.stubGlobal("fetch", async (address: string, { body }: { body: Blob }) => {
    requests.push([address, await body.text()]);
    const [status, text] = answers.shift() ?? [500, ""];
    return new Response(text, { status });
  });
  const said: unknown[] = [];
  return { requests, said, server: new Server(1000, (...words) => said.push(words)) };
}

const lines = (...values: unknown[]) => `${values.map((one) => JSON.stringify(one)).join("\n\n")}\n`;

describe("the server", () => {
  it("gets a model once, and tells how far its work is", async () => {
    const answer = { title: "m", payload: {}, more: false };
    const step = { progress: "predict", done: 1, total: 4 };
    const { requests, said, server: asked } = server([201, '{"id":"a"}'], [200, lines({ answer })], [200, lines(step, { answer })]);
    expect(await asked.ask(QUESTION)).toEqual(answer);
    expect(await asked.profile(QUESTION)).toEqual(answer);
    expect(requests).toEqual([
      ["models", '[{"path":"m.mlmodel","size":3}]\nabc'],
      ["models/a/answer", '{"paths":["m.mlmodel"]}\n'],
      ["models/a/profile", '{"paths":["m.mlmodel"]}\n'],
    ]);
    expect(said).toEqual([["Sending the model"], ["Predicting", 0.25]]);
  });

  it("says why there is no answer", async () => {
    const refusal = { error: "the disk is too full", hint: "free some space" };
    expect(await server([507, JSON.stringify(refusal)]).server.ask(QUESTION)).toEqual(refusal);
    expect(await server([201, '{"id":"a"}'], [200, lines(refusal)]).server.ask(QUESTION)).toEqual(refusal);
    expect(await server([201, '{"id":"a"}'], [200, "\n"]).server.ask(QUESTION)).toHaveProperty("error");
    const large = { ...QUESTION, dropped: droppedOf([{ path: "m", file: new Blob(["a".repeat(1001)]) }]) };
    expect(await server().server.ask(large)).toHaveProperty("error");
  });

  it("sends inputs after what is asked of them", async () => {
    const { requests, server: asked } = server([201, '{"id":"a"}'], [200, lines({ answer: { outputs: [] } })]);
    const inputs = [{ input: "x", name: "a.png", size: 2, typed: false }];
    await asked.predict(QUESTION, { inputs, files: [new Blob(["xy"])], resize: "scale-fit", rate: 16000 });
    expect(requests[1]?.[0]).toBe("models/a/prediction");
    expect(requests[1]?.[1]).toBe(`${JSON.stringify({ path: "m.mlmodel", inputs, resize: "scale-fit", rate_Hz: 16000 })}\nxy`);
  });
});
