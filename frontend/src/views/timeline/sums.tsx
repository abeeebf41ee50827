import { useState } from "preact/hooks";
import { sumsByKind, type Timeline } from "../../data/lanes";
import { UNIT_NAMES } from "../../data/words";
import { duration, share } from "../../format";
import { More } from "../../ui/more";
import { ScrollRegion } from "../../ui/scroll";
import type { Range } from "./range";

const LISTED = 6;

/** Count, total and mean of each kind of span in view. */
export function Sums(props: { lanes: Timeline; view: Range }) {
  const { lanes, view } = props;
  const [isOpen, open] = useState(false);
  const sums = sumsByKind(lanes, view.start, view.start + view.seconds);
  const whole = sums.reduce((total, one) => total + one.seconds, 0);
  const heads = ["Unit", "Count", "Total", "Mean", "Share"];
  return (
    <>
      <ScrollRegion label="Sums of what is shown, by kind">
        <table class="plain">
          <thead>
            <tr>
              <th scope="col">In view, by kind</th>
              {heads.map((head) => (
                <th scope="col" class={head === "Unit" ? "" : "number"} key={head}>
                  {head}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {(isOpen ? sums : sums.slice(0, LISTED)).map((one) => (
              <tr key={`${one.unit} ${one.label}`}>
                <th scope="row" class="label mono">
                  {one.label}
                </th>
                <td>{one.unit === "measured" ? "" : UNIT_NAMES[one.unit]}</td>
                <td class="number">{one.count}</td>
                <td class="number">{duration(one.seconds)}</td>
                <td class="number">{duration(one.seconds / one.count)}</td>
                <td class="number">{share(one.seconds / (whole || 1))}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </ScrollRegion>
      <More listed={LISTED} total={sums.length} isOpen={isOpen} open={open} />
    </>
  );
}
