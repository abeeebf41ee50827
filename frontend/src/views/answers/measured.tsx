import { type Badge, isWhole, measurementBadges } from "../../data/answers";
import type { Measurement } from "../../data/schema";
import { duration } from "../../format";
import { useReport } from "../../report";
import { OriginTag } from "../../ui/origin";

/** What a machine measured: a line of its own, as it is on no axis of other devices. */
export function Measured(props: { measurement: Measurement; isMain: boolean }) {
  const { measurement } = props;
  const { measuredBy } = useReport();
  const { predict, load, compile } = measurement;
  const median = predict?.statistics.median;
  const others = [
    median !== undefined && `median of ${predict?.statistics.count}`,
    load && `load ${duration(load.statistics.median)}`,
    compile && `compile ${duration(compile.statistics.median)}`,
  ];
  return (
    <div class={props.isMain ? "latency latency-main" : "latency"} title={`Medians, measured by ${measuredBy}`}>
      <span class="latency-place">{measuredBy}</span>{" "}
      {median === undefined ? (
        <span class="latency-value latency-none">no prediction</span>
      ) : (
        <>
          {!isWhole(measurement) && <span class="latency-text">the parts that ran: </span>}
          <span class="latency-value">{duration(median)}</span>
        </>
      )}{" "}
      <OriginTag origin="measured" /> <Badges badges={measurementBadges(measurement)} />{" "}
      <span class="latency-text">{others.filter(Boolean).join("; ")}</span>
    </div>
  );
}

function Badges(props: { badges: readonly Badge[] }) {
  return props.badges.map((badge) => (
    <span key={badge.text} class="badge" title={badge.title}>
      {badge.text}
    </span>
  ));
}
