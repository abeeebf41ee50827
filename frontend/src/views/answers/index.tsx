import { useState } from "preact/hooks";
import type { Answer } from "../../data/schema";
import { useReport } from "../../report";
import { Changes } from "./changes";
import { Devices } from "./devices";
import { Measured } from "./measured";
import { Pinned } from "./pinned";
import { TimeSpent } from "./time";
import { Trust } from "./trust";
import { Verdict } from "./verdict";
import { NotPlanned, PlannedUnits, WhyNot } from "./why";

/** How many answers can be pinned next to each other. */
const PINS = 2;

/** The first screen: the verdict, every device, where the time goes, what to change, why, and how far to believe it. */
export function Answers() {
  const { measurement, target, answer, placement } = useReport();
  const [pins, setPins] = useState<readonly Answer[]>([]);
  if (!measurement && !target) return null;
  const pin = (one: Answer) => setPins((old) => (old.includes(one) ? old.filter((other) => other !== one) : [...old, one].slice(-PINS)));
  return (
    <div class="answers">
      <Verdict />
      <Devices pins={pins} onPin={pin} />
      {pins.length > 0 && <Pinned answers={pins} onPin={pin} />}
      {measurement && <Measured measurement={measurement} isMain={!target} />}
      <TimeSpent />
      {!answer?.latency && placement && <PlannedUnits />}
      <Changes />
      {placement ? <WhyNot /> : <NotPlanned />}
      <Trust />
    </div>
  );
}
