import { energyLine, energyRows } from "../data/recording";
import type { Energy } from "../data/schema";
import { useReport } from "../report";
import { OriginTag } from "../ui/origin";
import { ScrollRegion } from "../ui/scroll";
import { Section } from "../ui/section";

/** The energy that the system reported meanwhile. */
export function EnergyUse() {
  const { measurement } = useReport();
  const energy = measurement?.energy;
  if (!energy) return null;
  return (
    <Section id="energy" title="Energy" note={<OriginTag origin={energy.origin} />}>
      {energy.units.length > 0 && <EnergyTable energy={energy} />}
      <p class="caption dim">{energyLine(energy)}</p>
    </Section>
  );
}

function EnergyTable(props: { energy: Energy }) {
  return (
    <ScrollRegion label="Energy by unit">
      <table class="plain numbers">
        <thead>
          <tr>
            <th scope="col">Unit</th>
            {["energy", "power", "a prediction"].map((title) => (
              <th scope="col" key={title}>
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {energyRows(props.energy).map((row) => (
            <tr key={row.name}>
              <th scope="row">{row.name}</th>
              <td>{row.energy}</td>
              <td>{row.power}</td>
              <td>{row.perPrediction}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </ScrollRegion>
  );
}
