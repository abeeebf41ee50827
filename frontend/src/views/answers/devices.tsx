import { useState } from "preact/hooks";
import { settingHazard, timeShares } from "../../data/answers";
import { answerOf, type Target, targetName } from "../../data/profile";
import type { Answer, ComputeUnits, Figure } from "../../data/schema";
import { SETTING_NAMES, UNIT_SHORT } from "../../data/words";
import { duration, percent } from "../../format";
import { useReport } from "../../report";
import { OriginTag } from "../../ui/origin";
import { UnitBar } from "../../ui/units";
import { Card } from "./card";

type Column = "device" | "latency" | "best" | "units" | "load";

/** A device with its answer under the setting that was asked for. */
interface Line {
  target: Target;
  first: Answer;
}

/** Every device on one logarithmic axis with its best setting; the chosen one with all of its settings. */
export function Devices(props: { pins: readonly Answer[]; onPin: (one: Answer) => void }) {
  const { targets, target, setting, answer: shown, profile } = useReport();
  const [sort, setSort] = useState<{ column: Column; isDescending: boolean } | null>(null);
  if (!profile) return null;
  const answers = (one: Target) => one.settings.flatMap((name) => answerOf(profile, one, name) ?? []);
  const lines = targets.flatMap((one): Line[] => {
    const [first] = answers(one);
    return first?.latency ? [{ target: one, first }] : [];
  });
  const asked = lines[0]?.first.compute_units;
  if (!asked) return null;
  const opened = target ? answers(target).filter((one) => one.latency) : [];
  const at = axisOf([...lines.map(({ first }) => first), ...opened].flatMap(({ latency }) => latency ?? []));
  const hasLoads = lines.some(({ first }) => first.load);
  const press = (column: Column) =>
    setSort((old) =>
      old?.column === column ? (old.isDescending ? null : { column, isDescending: true }) : { column, isDescending: false },
    );
  const titles: [Column, string][] = [["device", "Device"]];
  const rest: [Column, string][] = [
    ["latency", SETTING_NAMES[asked]],
    ["best", "Best"],
    ["units", "Units"],
    ...(hasLoads ? [["load", "First load"] satisfies [Column, string]] : []),
  ];
  const heading = ([column, title]: [Column, string]) => {
    const order = sort?.column === column ? (sort.isDescending ? "descending" : "ascending") : "none";
    return (
      <th scope="col" key={column} class={`col-${column}`} aria-sort={order}>
        <button type="button" class="heading" onClick={() => press(column)}>
          {title}
          {order !== "none" && <span aria-hidden="true"> {order === "ascending" ? "↑" : "↓"}</span>}
        </button>
      </th>
    );
  };
  return (
    <Card id="devices" question="Which device and setting?" tags={<OriginTag origin="estimated" />}>
      <table class="plain devices">
        <thead>
          <tr>
            {titles.map(heading)}
            <th scope="col" class="col-axis">
              80 % interval
            </th>
            {rest.map(heading)}
            <th scope="col">
              <span class="hidden">Pin</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {sorted(lines, sort).map(({ target: one, first }) => (
            <>
              <DeviceRow key={one.key} target={one} first={first} at={at} hasLoads={hasLoads} isChosen={one === target} {...props} />
              {one === target &&
                opened.length > 0 &&
                opened.map((other) => (
                  <SettingRow
                    key={`${one.key} ${other.compute_units}`}
                    {...{ ...props, target: one, answer: other, at, hasLoads }}
                    isBest={first.best?.compute_units === other.compute_units}
                    isChosen={other === shown || other.compute_units === setting}
                  />
                ))}
            </>
          ))}
        </tbody>
      </table>
    </Card>
  );
}

interface RowProps {
  target: Target;
  at: (seconds: number) => number;
  hasLoads: boolean;
  isChosen: boolean;
  pins: readonly Answer[];
  onPin: (one: Answer) => void;
}

function DeviceRow(props: RowProps & { first: Answer }) {
  const { target, first, at, hasLoads } = props;
  const { setting, chooseTarget } = useReport();
  const { best, compute_units: asked } = first;
  return (
    <tr class={props.isChosen ? "device chosen" : "device"}>
      <th scope="row">
        <button type="button" class="link whole-row" aria-pressed={props.isChosen} onClick={() => chooseTarget(target, setting)}>
          {targetName(target)}
        </button>
      </th>
      <Interval latency={first.latency} at={at} />
      <td class="number col-latency">
        <SettingLink target={target} setting={asked} latency={first.latency} isAtLeast={first.is_at_least} />
      </td>
      <td class="number col-best">
        {best && best.compute_units !== asked ? (
          <>
            <span class="star" title={`the fastest setting, ${best.certainty}`}>
              ★
            </span>{" "}
            <SettingLink target={target} setting={best.compute_units} latency={best.latency} isNamed />
            {best.certainty !== "likely" && (
              <span class="faint" role="img" aria-label={best.certainty} title={best.certainty}>
                {" "}
                ?
              </span>
            )}
          </>
        ) : (
          best && <span class="faint">=</span>
        )}
      </td>
      <Units answer={first} />
      {hasLoads && <td class="number col-load">{first.load ? duration(first.load.first_s.value) : <span class="faint">–</span>}</td>}
      <PinCell answer={first} pins={props.pins} onPin={props.onPin} />
    </tr>
  );
}

function SettingRow(props: RowProps & { answer: Answer; isBest: boolean }) {
  const { target, answer, at, hasLoads } = props;
  const { chooseTarget } = useReport();
  const name = SETTING_NAMES[answer.compute_units];
  const hazard = settingHazard(answer);
  return (
    <tr class={props.isChosen ? "setting chosen" : "setting"}>
      <th scope="row">
        <button
          type="button"
          class="link whole-row"
          aria-pressed={props.isChosen}
          onClick={() => chooseTarget(target, answer.compute_units)}
        >
          {name}
        </button>
        {props.isBest && (
          <span class="star" title="the fastest setting">
            {" "}
            ★
          </span>
        )}
      </th>
      <Interval latency={answer.latency} at={at} />
      <td class="number col-latency">
        {answer.is_at_least && "≥ "}
        {answer.latency && duration(answer.latency.value)}
      </td>
      <td class="col-best">{hazard && <span class="hazard">{hazard.kind}</span>}</td>
      <Units answer={answer} />
      {hasLoads && <td class="number col-load">{answer.load ? duration(answer.load.first_s.value) : <span class="faint">–</span>}</td>}
      <PinCell answer={answer} pins={props.pins} onPin={props.onPin} />
    </tr>
  );
}

/** A latency that chooses its setting. */
function SettingLink(props: { target: Target; setting: ComputeUnits; latency: Figure | null; isAtLeast?: boolean; isNamed?: boolean }) {
  const { chooseTarget } = useReport();
  if (!props.latency) return null;
  const name = SETTING_NAMES[props.setting];
  return (
    <button
      type="button"
      class="link value"
      title={`Show ${props.target.device}, ${name}`}
      onClick={() => chooseTarget(props.target, props.setting)}
    >
      <b>
        {props.isAtLeast && "≥ "}
        {duration(props.latency.value)}
      </b>
      {props.isNamed && ` ${name}`}
    </button>
  );
}

function Interval(props: { latency: Figure | null; at: (seconds: number) => number }) {
  const { latency, at } = props;
  if (!latency) return <td class="col-axis" />;
  const { value, low, high } = latency;
  const words = `${duration(low)} – ${duration(high)}`;
  return (
    <td class="col-axis">
      <span class="range" role="img" aria-label={words} title={words}>
        <span class="range-line" style={{ left: `${at(low)}%`, width: `${at(high) - at(low)}%` }} />
        <span class="range-point" style={{ left: `${at(value)}%` }} />
      </span>
    </td>
  );
}

function Units(props: { answer: Answer }) {
  const { units, latency } = props.answer;
  const shares = timeShares(units);
  const [most] = [...shares].sort((a, b) => b.part - a.part);
  if (!latency || !most) return <td class="col-units" />;
  return (
    <td class="col-units">
      <span class="units-cell">
        <UnitBar parts={shares.map(({ unit, part }) => ({ unit, amount: part, text: duration(part * latency.value) }))} />
        <span class="faint">
          {UNIT_SHORT[most.unit]} {percent(most.part)}
        </span>
      </span>
    </td>
  );
}

function PinCell(props: { answer: Answer; pins: readonly Answer[]; onPin: (one: Answer) => void }) {
  const { answer, pins, onPin } = props;
  const isPinned = pins.includes(answer);
  const label = `Pin ${answer.device}, ${SETTING_NAMES[answer.compute_units]}, to compare`;
  return (
    <td class="col-pin">
      <button type="button" class="pin" aria-pressed={isPinned} aria-label={label} title={label} onClick={() => onPin(answer)}>
        {isPinned ? "◆" : "◇"}
      </button>
    </td>
  );
}

/** Places of seconds on one logarithmic axis, in percent. */
function axisOf(figures: readonly Figure[]): (seconds: number) => number {
  const ends = figures.flatMap(({ low, high }) => [low, high]).filter((one) => one > 0);
  const [least, most] = [Math.min(...ends), Math.max(...ends)];
  return (seconds) => (most > least ? (Math.log(Math.max(seconds, least) / least) / Math.log(most / least)) * 100 : 50);
}

/** Lines by a column; unknown values are last. */
function sorted(lines: readonly Line[], sort: { column: Column; isDescending: boolean } | null): readonly Line[] {
  if (!sort) return lines;
  const collator = new Intl.Collator("en", { numeric: true });
  const value = ({ first }: Line): number | null => {
    if (sort.column === "latency") return first.latency?.value ?? null;
    if (sort.column === "best") return first.best?.latency.value ?? null;
    if (sort.column === "units") return first.units.neural_engine ?? 0;
    return first.load?.first_s.value ?? null;
  };
  const sign = sort.isDescending ? -1 : 1;
  return [...lines].sort((a, b) => {
    if (sort.column === "device") return sign * collator.compare(targetName(a.target), targetName(b.target));
    const [one, other] = [value(a), value(b)];
    if (one === null || other === null) return Number(one === null) - Number(other === null);
    return sign * (one - other);
  });
}
