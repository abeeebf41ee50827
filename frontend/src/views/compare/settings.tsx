import { answerOf, targetsOf } from "../../data/profile";
import type { Comparison } from "../../data/schema";
import { OriginTag } from "../../ui/origin";
import { Section } from "../../ui/section";
import { HeatGrid } from "../heat-grid";

/** The devices and settings of one model, with what is certain of each against the first. */
export function ComparedSettings(props: { comparison: Comparison }) {
  const { subjects, differences, profiles } = props.comparison;
  const [profile] = profiles;
  const targets = profile ? targetsOf(profile) : [];
  if (!profile || !targets.some((one) => one.settings.some((name) => answerOf(profile, one, name)?.latency))) return null;
  const words = new Map(differences.flatMap(({ other, estimated: [pair] }) => [[subjects[other]?.label ?? "", pair?.verdict ?? ""]]));
  const note = `faster and slower: than ${subjects[0]?.label ?? ""}, where that is certain`;
  return (
    <Section id="grid" title="Devices and settings" note={<OriginTag origin="estimated" />}>
      <HeatGrid {...{ profile, targets }} wordOf={({ device, compute_units: setting }) => words.get(`${device}, ${setting}`) ?? ""} />
      <p class="dim caption">{note}</p>
    </Section>
  );
}
