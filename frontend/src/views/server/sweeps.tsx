import type { SweepFolder } from "../../data/schema";
import { count, moment, plural } from "../../format";
import { ScrollRegion } from "../../ui/scroll";
import { Section } from "../../ui/section";

/** The folders with results of sweeps; each opens as a page that changes while a sweep runs. */
export function Sweeps(props: { sweeps: readonly SweepFolder[] }) {
  if (!props.sweeps.length) return null;
  return (
    <Section id="sweeps" title="Sweeps" note={<span>{plural(props.sweeps.length, "folder")}</span>}>
      <ScrollRegion label="Sweeps">
        <table class="plain overview">
          <thead>
            <tr>
              <th scope="col">Results in</th>
              <th scope="col" class="number">
                Rows
              </th>
              <th scope="col">Changed</th>
              <th scope="col">State</th>
            </tr>
          </thead>
          <tbody>
            {props.sweeps.map((sweep) => (
              <tr key={sweep.id}>
                <th scope="row" class="label" title={sweep.folder}>
                  <a href={`sweeps/${encodeURIComponent(sweep.id)}`}>{sweep.id}</a>
                </th>
                <td class="number">{count(sweep.rows)}</td>
                <td>{moment(sweep.changed_at)}</td>
                <td>{sweep.is_running ? "running" : "ended"}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </ScrollRegion>
    </Section>
  );
}
