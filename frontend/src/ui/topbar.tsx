import type { ComponentChildren } from "preact";
import { measurementName, targetName } from "../data/profile";
import type { ComputeUnits } from "../data/schema";
import { SETTING_NAMES } from "../data/words";
import { fileName } from "../format";
import { useReport } from "../report";
import { ThemeSwitch } from "../theme";

/** The bar that stays in view: links to the sections, and menus for the measurement, the device and the setting. */
export function TopBar(props: { views: readonly { id: string; title: string }[]; back?: ComponentChildren }) {
  const { model } = useReport();
  return (
    <div class="topbar">
      {props.back}
      <a class="brand" href="#top" title={model.path}>
        {fileName(model.path)}
      </a>
      <nav aria-label="Parts of the report">
        {props.views.map((view) => (
          <a key={view.id} href={`#${view.id}`}>
            {view.title}
          </a>
        ))}
      </nav>
      <Choices />
      <ThemeSwitch />
    </div>
  );
}

function Choices() {
  const { measurements, measurement, targets, target, setting, chooseMeasurement, chooseTarget } = useReport();
  if (!target && measurements.length < 2) return null;
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
      {target && (
        <>
          <label class="menu">
            <span>Device</span>
            <select
              value={targets.indexOf(target)}
              onChange={(event) => {
                const chosen = targets[Number(event.currentTarget.value)];
                if (chosen) chooseTarget(chosen);
              }}
            >
              {targets.map((one, index) => (
                <option key={one.key} value={index}>
                  {targetName(one)}
                </option>
              ))}
            </select>
          </label>
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
        </>
      )}
    </div>
  );
}
