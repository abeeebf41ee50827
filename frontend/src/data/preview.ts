import type { PredictionRequest } from "../opening/answers";
import type { FeatureSummary, Preview } from "./schema";

/** The value of an input: a file, or what a person typed. */
export type Given = { file: File } | { text: string };

/** Ways to resize pictures; the first one is the default, as of `coremlscope predict`. */
export const RESIZES = [
  ["center-crop", "crop the longer side"],
  ["scale-fit", "fit, with black edges"],
  ["scale-fill", "stretch"],
] as const;

/** What an input takes, by its readable type. */
export type InputKind = "picture" | "text" | "dictionary" | "numbers";

/** What an input takes. */
export function inputKind(feature: FeatureSummary): InputKind {
  if (feature.type.startsWith("image")) return "picture";
  if (feature.type.startsWith("dictionary")) return "dictionary";
  if (feature.type === "string" || feature.type.startsWith("sequence of string")) return "text";
  return "numbers";
}

/** The input that a dropped file is for: one that takes such files, required before optional ones. */
export function inputFor(inputs: readonly FeatureSummary[], name: string): FeatureSummary | undefined {
  const fits = (kinds: readonly InputKind[]) => {
    const found = inputs.filter((input) => kinds.includes(inputKind(input)));
    return found.find((input) => !input.is_optional) ?? found[0];
  };
  const longest = () => {
    const size = (input: FeatureSummary) => Math.max(0, ...(input.shape ?? []));
    const arrays = inputs.filter((input) => inputKind(input) === "numbers");
    return arrays.reduce<FeatureSummary | undefined>((best, one) => (best && size(best) >= size(one) ? best : one), undefined);
  };
  if (/\.(png|jpe?g|webp|gif|bmp|tiff?)$/i.test(name)) return fits(["picture"]) ?? longest();
  if (/\.(wav|wave)$/i.test(name)) return longest();
  if (/\.txt$/i.test(name)) return fits(["text"]) ?? fits(["numbers"]);
  if (/\.json$/i.test(name)) return fits(["dictionary"]) ?? fits(["numbers"]);
  return fits(["numbers"]) ?? inputs[0];
}

/** Shorter arrays are no sounds. */
const FEWEST_SAMPLES = 256;

/** Whether the model may take sounds: an array with one long or flexible axis, and no picture. */
export function takesSound(inputs: readonly FeatureSummary[]): boolean {
  return (
    !inputs.some((input) => inputKind(input) === "picture") &&
    inputs.some((input) => {
      const long = (input.shape ?? []).filter((size) => size > 1);
      const isLong = long.length === 1 && (long[0] ?? 0) >= FEWEST_SAMPLES;
      return !input.is_optional && inputKind(input) === "numbers" && (isLong || (!long.length && input.shape && input.flexibility !== ""));
    })
  );
}

/** What is asked for: the inputs, and their files one after the other. */
export function previewRequest(
  given: ReadonlyMap<string, Given>,
  inputs: readonly FeatureSummary[],
  resize: string,
  rate: string,
): PredictionRequest {
  const request: PredictionRequest = { inputs: [], files: [], resize, rate: Number(rate) };
  const files: Blob[] = [];
  for (const input of inputs) {
    const one = given.get(input.name);
    if (!one) continue;
    const blob = "file" in one ? one.file : new Blob([one.text]);
    const name = "file" in one ? one.file.name : inputKind(input) === "dictionary" ? "typed.json" : "typed.txt";
    files.push(blob);
    request.inputs.push({ input: input.name, name, size: blob.size, typed: !("file" in one) });
  }
  return { ...request, files };
}

/** The median of the predictions that were timed; null without any. */
export function predictionTime(preview: Preview): number | null {
  const sorted = [...preview.predict_s].sort((a, b) => a - b);
  const middle = sorted.length / 2;
  if (!sorted.length) return null;
  return Number.isInteger(middle) ? ((sorted[middle - 1] ?? 0) + (sorted[middle] ?? 0)) / 2 : (sorted[Math.floor(middle)] ?? 0);
}
