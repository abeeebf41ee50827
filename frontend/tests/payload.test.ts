import { describe, expect, it, vi } from "vitest";
import { readPayload } from "../src/payload";
import { goldenProfile } from "./fixtures";

const pageWith = (element: { textContent: string | null } | null) =>
  vi.stubGlobal("document", { getElementById: (id: string) => (id === "payload" ? element : null) });

describe("readPayload", () => {
  it("decodes the result that the page holds", () => {
    const result = goldenProfile();
    pageWith({ textContent: JSON.stringify({ version: "1.2.3", result }) });
    expect(readPayload()).toEqual({ version: "1.2.3", result });
  });

  it.each([
    ["an absent element", null],
    ["an empty element", { textContent: "" }],
  ])("rejects %s", (_, element) => {
    pageWith(element);
    expect(readPayload).toThrow("this page contains no data");
  });

  it("rejects text that is not valid JSON", () => {
    pageWith({ textContent: "{" });
    expect(readPayload).toThrow(SyntaxError);
  });
});
