import { bestOf } from "./frontier";
import type { OutputDifference, Variant, VariantDifference, VariantForecast, VariantsForm } from "./schema";

/** What the horizontal axis of the chart shows. */
export type Cost = "size" | "latency" | "memory";

/** The digits that are shown of a cost. */
const DIGITS = 3;

/** A variant in the chart. */
export interface Point {
  name: string;
  cost: number;
  /** Null where the outputs are equal to the original's: above all numbers. */
  psnr: number | null;
  /** True if no other variant costs less and is closer to the original. */
  isBest: boolean;
}

/** The key of a device, system and setting. */
export const forecastKey = ({ answer }: VariantForecast): string => `${answer.device}, ${answer.os}, ${answer.compute_units}`;

/** The devices, systems and settings of all variants. */
export function forecastKeys(report: VariantsForm): string[] {
  return [...new Set(report.variants.flatMap((variant) => variant.forecasts.map(forecastKey)))];
}

/** The forecast of a variant for a device, system and setting. */
export const forecastOf = (variant: Variant, key: string): VariantForecast | undefined =>
  variant.forecasts.find((one) => forecastKey(one) === key);

/** The output with the least PSNR; null where all are equal or without numbers. */
export function worstOutput(difference: VariantDifference): OutputDifference | null {
  const numeric = difference.outputs.filter((output) => output.psnr_db !== null);
  return numeric.reduce<OutputDifference | null>((worst, one) => (worst && (worst.psnr_db ?? 0) <= (one.psnr_db ?? 0) ? worst : one), null);
}

/** The least agreement on the first class; null where no output ranks classes. */
export function sameClass(difference: VariantDifference): number | null {
  const known = difference.outputs.flatMap((output) => (output.top1 === null ? [] : [output.top1]));
  return known.length ? Math.min(...known) : null;
}

/** The variants whose cost and outputs are known; the best ones are marked. Costs that are shown alike are the same. */
export function pointsOf(report: VariantsForm, cost: Cost, key: string): Point[] {
  const points = report.variants.flatMap<Point>((variant, index) => {
    const amount = costOf(variant, cost, key);
    const { difference } = variant;
    if (amount === null) return [];
    const isEqual = index === 0 || (difference?.outputs.every((output) => output.is_equal) ?? false);
    if (isEqual) return [{ name: variant.name, cost: amount, psnr: null, isBest: false }];
    const psnr = difference ? (worstOutput(difference)?.psnr_db ?? null) : null;
    return psnr === null ? [] : [{ name: variant.name, cost: amount, psnr, isBest: false }];
  });
  const best = bestOf(
    points.map((point) => Number(point.cost.toPrecision(DIGITS))),
    points.map((point) => point.psnr ?? Number.POSITIVE_INFINITY),
  );
  return points.map((point, index) => ({ ...point, isBest: best.has(index) }));
}

/** A variant by its size and its latency. */
export interface TimedVariant {
  name: string;
  size: number;
  seconds: number;
  /** True if its outputs are known to rank another class first. */
  isOff: boolean;
  /** True if no other one is smaller and faster. */
  isBest: boolean;
}

/** The variants' sizes and latencies on a device; of those that are not off, the ones that no other one beats in both are marked. */
export function timesBySize(report: VariantsForm, key: string): TimedVariant[] {
  const points = report.variants.flatMap((variant) => {
    const [size, seconds] = [costOf(variant, "size", key), costOf(variant, "latency", key)];
    const isOff = ((variant.difference && sameClass(variant.difference)) ?? 1) < 1;
    return size === null || seconds === null ? [] : [{ name: variant.name, size, seconds, isOff }];
  });
  const right = points.filter(({ isOff }) => !isOff);
  const best = bestOf(
    right.map(({ size }) => Number(size.toPrecision(DIGITS))),
    right.map(({ seconds }) => -Number(seconds.toPrecision(DIGITS))),
  );
  return points.map((point) => ({ ...point, isBest: best.has(right.indexOf(point)) }));
}

function costOf(variant: Variant, cost: Cost, key: string): number | null {
  if (cost === "size") return variant.size_bytes;
  const forecast = forecastOf(variant, key);
  if (!forecast) return null;
  return (cost === "latency" ? forecast.answer.latency : forecast.memory.peak)?.value ?? null;
}

/** Each note once, with the names of the variants that it concerns. */
export const notesOf = (report: VariantsForm): [string, string[]][] => byText(report, (variant) => variant.notes);

/** Each reason why variants were not made or compared once, with their names. */
export const failuresOf = (report: VariantsForm): [string, string[]][] =>
  byText(report, ({ failure, hint }) => (failure ? [[failure, hint].filter(Boolean).join(": ")] : []));

function byText(report: VariantsForm, textsOf: (variant: Variant) => readonly string[]): [string, string[]][] {
  const found = new Map<string, string[]>();
  for (const variant of report.variants) {
    for (const text of textsOf(variant)) found.set(text, [...(found.get(text) ?? []), variant.name]);
  }
  return [...found];
}
