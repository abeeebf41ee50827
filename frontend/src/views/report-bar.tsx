import type { ComponentChildren } from "preact";
import { chipOf, measurementName, targetName } from "../data/profile";
import type { ComputeUnits } from "../data/schema";
import { isPlanned, SETTING_NAMES } from "../data/words";
import { fileName } from "../format";
import { useReport } from "../report";
import { TopBar } from "../ui/topbar";

/** The top bar of a report: links to the sections, and menus for the measurement, the device and the setting. */
export function ReportBar(props: {
  views: readonly { id: string; title: string }[];
  back?: ComponentChildren;
  /** Chips that can be asked for, whether or not the report has them. */
  chips: readonly [id: string, name: string][];
  /** Asks for a chip that the report does not have. */
  onWant: (id: string) => void;
}) {
  const { model } = useReport();
  return (
    <TopBar brand={fileName(model.path)} title={model.path} parts={props.views} back={props.back}>
      <Choices chips={props.chips} onWant={props.onWant} />
    </TopBar>
  );
}

function Choices(props: { chips: readonly [string, string][]; onWant: (id: string) => void }) {
  const { model, measurements, measurement, targets, target, setting, chooseMeasurement, chooseTarget } = useReport();
  const known = new Set(targets.map(chipOf));
  const others = isPlanned(model.kind) ? props.chips.filter(([id]) => !known.has(id)).reverse() : [];
  if (!target && others.length === 0 && measurements.length < 2) return null;
  return (
    <div class="context">
      {measurements.length > 1 && (
        <label class="menu">
          <span>Measured</span>
          <select
            value={measurement ? measurements.indexOf(measurement) : 0}
            onChange={(event) => {
              const chosen = measurements[Number(event.currentTarget.value)];
              if (chosen) chooseMeasurement(chosen);
            }}
          >
            {measurements.map((one, index) => (
              <option key={measurementName(measurements, one)} value={index}>
                {measurementName(measurements, one)}
              </option>
            ))}
          </select>
        </label>
      )}
      {(target || others.length > 0) && (
        <label class="menu">
          <span>Device</span>
          <select
            name="device"
            value={target ? targets.indexOf(target) : ""}
            onChange={(event) => {
              const { value } = event.currentTarget;
              const chosen = targets[Number(value)];
              if (chosen) chooseTarget(chosen);
              else props.onWant(value);
              event.currentTarget.value = target && !chosen ? String(targets.indexOf(target)) : value;
            }}
          >
            {!target && <option value="">Device</option>}
            {targets.map((one, index) => (
              <option key={one.key} value={index}>
                {targetName(one)}
              </option>
            ))}
            {others.length > 0 && (
              <optgroup label="Not in this report">
                {others.map(([id, name]) => (
                  <option key={id} value={id}>
                    {name}
                  </option>
                ))}
              </optgroup>
            )}
          </select>
        </label>
      )}
      {target && (
        <label class="menu">
          <span>Units</span>
          <select value={setting} onChange={(event) => chooseTarget(target, event.currentTarget.value as ComputeUnits)}>
            {target.settings.map((one) => (
              <option key={one} value={one}>
                {SETTING_NAMES[one]}
              </option>
            ))}
          </select>
        </label>
      )}
    </div>
  );
}
