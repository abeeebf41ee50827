import { bytes, count, share } from "../format";
import { useReport } from "../report";
import { OriginTag } from "../ui/origin";
import { ScrollRegion } from "../ui/scroll";
import { Section } from "../ui/section";

/** Parameters by storage. */
export function Weights() {
  const { model } = useReport();
  const { weights, weights_bytes: total } = model;
  return (
    <Section id="weights" title="Weights" note={<OriginTag origin="declared" />}>
      <ScrollRegion label="Weights by storage">
        <table class="plain">
          <thead>
            <tr>
              <th scope="col">Stored as</th>
              <th scope="col">Used as</th>
              {["Tensors", "Parameters", "Bits each", "Size", "Share"].map((head) => (
                <th scope="col" class="number" key={head}>
                  {head}
                </th>
              ))}
              <th scope="col" class="wide">
                <span class="hidden">Bar</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {weights.map((group) => (
              <tr key={`${group.storage} ${group.dtype}`}>
                <th scope="row">{group.storage}</th>
                <td>{group.dtype}</td>
                <td class="number">{group.tensors}</td>
                <td class="number">{count(group.parameters)}</td>
                <td class="number">{group.parameters ? ((group.nbytes * 8) / group.parameters).toPrecision(3) : "–"}</td>
                <td class="number">{bytes(group.nbytes)}</td>
                <td class="number">{total ? share(group.nbytes / total) : "–"}</td>
                <td class="wide">
                  <span class="plain-bar" style={{ width: `${total ? (group.nbytes / total) * 100 : 0}%` }} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </ScrollRegion>
      {model.missing_weights.length > 0 && <p class="caption">Missing: {model.missing_weights.join(", ")}</p>}
    </Section>
  );
}
