import { busyPerPrediction, recordingLines, whose } from "../data/recording";
import type { Recording } from "../data/schema";
import { UNIT_NAMES } from "../data/words";
import { count, duration } from "../format";
import { useReport } from "../report";
import { OriginTag } from "../ui/origin";
import { ScrollRegion } from "../ui/scroll";
import { Section } from "../ui/section";

/** When each unit was busy in a recording. */
export function BusyUnits() {
  const { measurement, measuredBy } = useReport();
  const recording = measurement?.recording;
  if (!recording) return null;
  return (
    <Section id="busy" title="Busy units" note={<OriginTag origin="measured" on={measuredBy} />}>
      {recording.units.length > 0 && <Activities recording={recording} />}
      {recordingLines(recording).map((line) => (
        <p class="caption dim" key={line}>
          {line}
        </p>
      ))}
    </Section>
  );
}

function Activities(props: { recording: Recording }) {
  return (
    <ScrollRegion label="Busy time by unit">
      <table class="plain numbers">
        <thead>
          <tr>
            <th scope="col">Unit</th>
            {["intervals", "busy", "median", "a prediction"].map((title) => (
              <th scope="col" key={title}>
                {title}
              </th>
            ))}
            <th scope="col">Table</th>
            <th scope="col">Work of</th>
          </tr>
        </thead>
        <tbody>
          {props.recording.units.map((one) => (
            <tr key={one.table}>
              <th scope="row">{UNIT_NAMES[one.unit]}</th>
              <td>{count(one.intervals)}</td>
              <td>{duration(one.busy_s)}</td>
              <td>{one.durations ? duration(one.durations.median) : "–"}</td>
              <td>{busyPerPrediction(props.recording, one)}</td>
              <td class="mono">{one.table}</td>
              <td>{whose(props.recording, one)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </ScrollRegion>
  );
}
