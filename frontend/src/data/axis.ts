import { scaleLinear, scaleLog } from "d3-scale";

/** Numbers whose largest is so many times the smallest are on a logarithmic axis. */
const DECADES = 50;
/** As many numbers as an axis has at most on a logarithmic scale, and about as many on a linear one. */
const MOST = { logarithmic: 7, linear: 5 };

/** An axis over values: logarithmic where they span decades, else linear, from zero if that is wanted. No two ticks are nearer than `room`. */
export function axis(values: readonly number[], range: [number, number], room: number, isFromZero: boolean) {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const smallest = Math.min(...values.filter((value) => value > 0));
  const fitting = Math.max(2, Math.floor(Math.abs(range[1] - range[0]) / room));
  if (least >= 0 && most / smallest > DECADES) {
    // Zero, which has no logarithm, is at the beginning of the axis.
    const [first, last] = [smallest / (least > 0 ? 1.3 : 4), most * 1.3];
    const scale = scaleLog([first, last], range);
    const ticks = [...(least > 0 ? [] : [0]), ...powers(smallest / 1.3, last, Math.min(MOST.logarithmic, fitting))];
    return { place: (value: number) => (value > 0 ? scale(value) : range[0]), ticks };
  }
  const margin = (most - least) * 0.08 || 1;
  const scale = isFromZero ? scaleLinear([0, most * 1.08 || 1], range) : scaleLinear([least - margin, most + margin], range).nice();
  let count = MOST.linear;
  while (count > 1 && scale.ticks(count).length > fitting) count--;
  return { place: (value: number) => scale(value), ticks: scale.ticks(count) };
}

/** Powers of ten within an interval, some of them where there are more than fit. */
function powers(least: number, most: number, fitting: number): number[] {
  const [first, last] = [Math.ceil(Math.log10(least)), Math.floor(Math.log10(most))];
  const step = Math.ceil((last - first + 1) / fitting);
  return Array.from({ length: last - first + 1 }, (_, index) => 10 ** (first + index)).filter((_, index) => index % step === 0);
}
