import { describe, expect, it } from "vitest";
import { inputFor, inputKind, predictionTime, previewRequest, takesSound } from "../../src/data/preview";
import type { FeatureSummary, Preview } from "../../src/data/schema";

const input = (name: string, type: string, changes: Partial<FeatureSummary> = {}): FeatureSummary => ({
  name,
  type,
  shape: null,
  flexibility: "",
  is_optional: false,
  doc: "",
  preprocessing: "",
  ...changes,
});
const image = input("image", "image RGB 32×32", { shape: [1, 3, 32, 32] });
const sound = input("audio", "float32 1×576", { shape: [1, 576] });
const state = input("state", "float32 1×128", { shape: [1, 128] });
const text = input("text", "string");
const words = input("words", "dictionary string → double");

describe("inputFor", () => {
  it("gives pictures to images", () => expect(inputFor([state, image], "a.PNG")?.name).toBe("image"));
  it("gives sounds to the longest array", () => expect(inputFor([state, sound], "a.wav")?.name).toBe("audio"));
  it("gives texts to texts", () => expect(inputFor([image, text], "a.txt")?.name).toBe("text"));
  it("gives JSON to dictionaries", () => expect(inputFor([state, words], "a.json")?.name).toBe("words"));
  it("prefers required inputs", () => {
    expect(inputFor([input("old", "image RGB 1×1", { is_optional: true }), image], "a.jpg")?.name).toBe("image");
  });
  it("has no input for a model without any", () => expect(inputFor([], "a.jpg")).toBeUndefined());
});

describe("inputKind", () => {
  it("tells kinds apart", () => expect([image, sound, text, words].map(inputKind)).toEqual(["picture", "numbers", "text", "dictionary"]));
});

describe("takesSound", () => {
  it("needs a long or flexible array", () => {
    expect(takesSound([sound, state])).toBe(true);
    expect(takesSound([state])).toBe(false);
    expect(takesSound([input("x", "float32 1×1", { shape: [1, 1], flexibility: "1×(1 … 160000)" })])).toBe(true);
    expect(takesSound([input("x", "double")])).toBe(false);
    expect(takesSound([image, sound])).toBe(false);
  });
});

describe("previewRequest", () => {
  it("puts the files into the body in the order of the inputs", async () => {
    const file = new File(["12345"], "a.wav");
    const { inputs, files, resize, rate } = previewRequest(
      new Map([
        ["text", { text: "hé" }],
        ["audio", { file }],
      ]),
      [sound, text],
      "scale-fit",
      "8000",
    );
    expect(inputs).toEqual([
      { input: "audio", name: "a.wav", size: 5, typed: false },
      { input: "text", name: "typed.txt", size: 3, typed: true },
    ]);
    expect([resize, rate]).toEqual(["scale-fit", 8000]);
    expect(await new Blob([...files]).text()).toBe("12345hé");
  });
});

describe("predictionTime", () => {
  const time = (...predict_s: number[]) => predictionTime({ predict_s } as unknown as Preview);
  it("is the median", () => expect([time(3, 1, 2), time(1, 2), time()]).toEqual([2, 1.5, null]));
});
