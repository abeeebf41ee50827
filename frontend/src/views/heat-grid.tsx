import { settingHazard } from "../data/answers";
import { answerOf, type Target, targetName } from "../data/profile";
import type { Answer, ComputeUnits, Profile } from "../data/schema";
import { SETTING_NAMES } from "../data/words";
import { duration } from "../format";
import { ScrollRegion } from "../ui/scroll";

const SETTINGS = Object.keys(SETTING_NAMES) as ComputeUnits[];

/** Every device under every setting: the darker, the slower. The best of a device is ringed; what goes wrong there is struck through. */
export function HeatGrid(props: {
  profile: Profile;
  targets: readonly Target[];
  /** What is known of a cell; `faster` and `slower` are shown. By default the best against the setting that was asked for. */
  wordOf?: (answer: Answer) => string;
  isChosen?: (target: Target, setting: ComputeUnits) => boolean;
  onChoose?: (target: Target, setting: ComputeUnits) => void;
}) {
  const { profile, targets, onChoose } = props;
  const rows = targets.map((target) => ({ target, answers: SETTINGS.map((name) => answerOf(profile, target, name)) }));
  const times = rows.flatMap(({ answers }) => answers.flatMap((one) => one?.latency?.value || []));
  const [least, most] = [Math.min(...times), Math.max(...times)];
  const heat = (seconds: number) => (most > least ? Math.log(seconds / least) / Math.log(most / least) : 0);
  return (
    <ScrollRegion label="Latency by device and setting">
      <table class="plain heat">
        <thead>
          <tr>
            <th scope="col">Device</th>
            {SETTINGS.map((name) => (
              <th scope="col" key={name}>
                {SETTING_NAMES[name]}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map(({ target, answers }) => (
            <tr key={target.key}>
              <th scope="row">{targetName(target)}</th>
              {answers.map((one, index) => {
                const name = SETTINGS[index];
                if (!name || !one?.latency) return <td key={name}>–</td>;
                const best = answers.find(Boolean)?.best;
                const isBest = best?.compute_units === name;
                const isFaster = isBest && best.certainty === "likely" && !one.is_asked;
                const content = <Time answer={one} word={props.wordOf ? props.wordOf(one) : isFaster ? "faster" : ""} />;
                return (
                  <td key={name} class={isBest ? "best" : ""} style={{ "--heat": `${Math.round(heat(one.latency.value) * 35)}%` }}>
                    {onChoose ? (
                      <button
                        type="button"
                        aria-pressed={props.isChosen?.(target, name) ?? false}
                        title={`Show ${targetName(target)}, ${SETTING_NAMES[name]}, everywhere on the page`}
                        onClick={() => onChoose(target, name)}
                      >
                        {content}
                      </button>
                    ) : (
                      content
                    )}
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </ScrollRegion>
  );
}

function Time(props: { answer: Answer; word: string }) {
  const { latency, is_at_least: isPart } = props.answer;
  const hazard = settingHazard(props.answer);
  const text = `${isPart ? "≥ " : ""}${latency ? duration(latency.value) : ""}`;
  if (hazard)
    return (
      <>
        <s>{text}</s> <span class="hazard">{hazard.kind}</span>
      </>
    );
  const isCertain = props.word === "faster" || props.word === "slower";
  return (
    <>
      {text} {isCertain && <span class="faint">{props.word}</span>}
    </>
  );
}
