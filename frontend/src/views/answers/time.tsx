import { useMemo, useState } from "preact/hooks";
import { spending } from "../../data/answers";
import { shortName } from "../../data/names";
import { duration, percent } from "../../format";
import { useReport } from "../../report";
import { OriginTag } from "../../ui/origin";
import { Card } from "./card";

/** A part of a time, which adds up with the others to all of it. */
export interface Part {
  name: string;
  share: number;
  seconds: number;
  /** Goes to its operations; none where it belongs to no operation. */
  show?: () => void;
}

/** How many parts are named below the bar; the others on demand. */
const NAMED = 5;

/** Where the time goes, as one bar of the whole: the parts of the estimate, else the most expensive measured groups. */
export function TimeSpent() {
  const { table, groups, answer, measurement, rows, showOnly, showOp } = useReport();
  const [isOpen, open] = useState(false);
  const measured = useMemo(() => spending({ table, groups }), [table, groups]);
  const { latency, time = [] } = answer ?? {};
  const parts: Part[] =
    latency && time.length > 0
      ? time.map(({ part, share, kernels }) => ({
          ...{ name: part, share, seconds: share * latency.value },
          ...(kernels.length > 0 && { show: () => showOnly({ part }) }),
        }))
      : (measured ?? []).map(({ label, name, ids, seconds, share, times }) => ({
          ...{ name: `${times > 1 ? `${times} × ` : ""}${shortName(name, rows.shared) || label}`, share, seconds },
          ...(ids[0] && { show: () => showOp(ids[0] ?? "") }),
        }));
  if (parts.length === 0) return null;
  const isSlowed = !time.length && measurement?.findings.some((one) => one.id === "profiler-overhead");
  const named = isOpen ? parts : parts.slice(0, NAMED);
  return (
    <Card id="time" question="Where does the time go?" tags={<OriginTag origin={time.length > 0 ? "estimated" : "measured"} />}>
      <TimeBar parts={parts} />
      <ol class="time-parts" aria-label="The parts of the time">
        {named.map((one, place) => (
          <li key={one.name}>
            <span class={`swatch part-${shadeOf(one, place)}`} />{" "}
            {one.show ? (
              <button type="button" class="link" title={`Show its operations: ${duration(one.seconds)}`} onClick={one.show}>
                {one.name}
              </button>
            ) : (
              <span>{one.name}</span>
            )}{" "}
            <b title={duration(one.seconds)}>{percent(one.share)}</b>
          </li>
        ))}
        {parts.length > NAMED && (
          <li>
            <button type="button" class="link" aria-expanded={isOpen} onClick={() => open(!isOpen)}>
              {isOpen ? "fewer" : `${parts.length - NAMED} more`}
            </button>
          </li>
        )}
      </ol>
      {isSlowed && <p class="answer-text">Longer than in predictions because of the engine's profiler.</p>}
    </Card>
  );
}

/** How many shades parts of operations have. */
const SHADES = 6;

/** Parts that no operation owns are hatched. */
const shadeOf = ({ show }: Part, place: number): string => (show ? `${place % SHADES}` : "hatched");

/** A bar of the whole time. */
export function TimeBar(props: { parts: readonly Part[] }) {
  const words = props.parts.map(({ name, share }) => `${name} ${percent(share)}`).join(", ");
  return (
    <div class="time-bar" role="img" aria-label={words}>
      {props.parts.map((one, place) => (
        // biome-ignore lint/a11y/noStaticElementInteractions lint/a11y/useKeyWithClickEvents: the list below has buttons for the same.
        <span
          key={one.name}
          class={`part-${shadeOf(one, place)}`}
          style={{ width: `${one.share * 100}%` }}
          title={`${one.name}: ${duration(one.seconds)}, ${percent(one.share)}`}
          onClick={one.show}
        />
      ))}
    </div>
  );
}
