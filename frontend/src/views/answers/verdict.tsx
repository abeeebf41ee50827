import { metHazards } from "../../data/answers";
import { perSecond } from "../../data/estimate";
import type { Answer } from "../../data/schema";
import { SETTING_NAMES } from "../../data/words";
import { duration } from "../../format";
import { useReport } from "../../report";
import { CopyButton } from "../../ui/copy";
import { OriginTag } from "../../ui/origin";
import { Strip, type Tone } from "../../ui/strip";

/** The answer in a figure and a sentence, with the line of Swift that it advises. */
export function Verdict() {
  const { answer, target, setting, placement } = useReport();
  if (!answer) {
    if (!target || !placement) return null;
    return (
      <p class="latency latency-main">
        <span class="latency-place">
          {target.device}, {SETTING_NAMES[setting]}:
        </span>{" "}
        <span class="latency-value latency-none">not estimated</span>
      </p>
    );
  }
  const swift = answer.changes.find((one) => one.id === "setting" || one.id === "avoid")?.code;
  return (
    <Strip
      tone={toneOf(answer)}
      word={metHazards(answer)[0]?.kind ?? answer.trust.certainty}
      figure={answer.latency && <Latency answer={answer} />}
      actions={
        swift && (
          <CopyButton label={`Copy Swift: ${swift}`} text={() => swift}>
            Copy Swift
          </CopyButton>
        )
      }
    >
      <span class="sentence">{answer.headline}</span>
    </Strip>
  );
}

/** Red where something is known to go wrong, amber where the answer is in doubt. */
function toneOf({ is_hazardous: isHazardous, trust }: Answer): Tone {
  if (isHazardous) return "wrong";
  return trust.certainty === "likely" ? "kept" : "doubt";
}

function Latency(props: { answer: Answer }) {
  const { latency, is_at_least: isPart, tokens, device, os, compute_units: setting } = props.answer;
  if (!latency) return null;
  const { value, low, high } = latency;
  return (
    <div class="latency latency-main" title={`${device}, ${os}, ${SETTING_NAMES[setting]}; 80 % interval`}>
      <div class="latency-value">
        {isPart && "≥ "}
        {duration(value)}
      </div>
      <div class="latency-text">
        {duration(low)} – {isPart ? "?" : duration(high)} <OriginTag origin="estimated" />
      </div>
      {tokens?.decode && (
        <div class="latency-text">
          <b>{perSecond(tokens.decode.value)} tokens/s</b>
        </div>
      )}
      {tokens?.unknown && <div class="latency-text">{tokens.unknown}</div>}
    </div>
  );
}
