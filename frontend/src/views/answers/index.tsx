import { useReport } from "../../report";
import { Changes } from "./changes";
import { Verdict } from "./devices";
import { HowLong } from "./latency";
import { TimeSpent } from "./spending";
import { Where } from "./where";

/** The first screen: how long, where, why not on the Neural Engine, where the time goes, what to change. */
export function Answers() {
  const { measurement, target } = useReport();
  if (!measurement && !target) return null;
  return (
    <div class="answers">
      <Verdict />
      <HowLong />
      <Where />
      <TimeSpent />
      <Changes />
    </div>
  );
}
