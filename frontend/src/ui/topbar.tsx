import type { Setting } from "../data/profile";
import { SETTING_NAMES } from "../data/words";
import { fileName } from "../format";
import { useReport } from "../report";
import { ThemeSwitch } from "../theme";

/** The bar that stays in view: links to the sections, and menus for the device and the setting. */
export function TopBar(props: { views: readonly { id: string; title: string }[] }) {
  const { model, plans, placement, device, setting, chooseDevice, chooseSetting } = useReport();
  return (
    <div class="topbar">
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
      {placement && (
        <div class="context">
          <label class="menu">
            <span>Device</span>
            <select value={device} onChange={(event) => chooseDevice(Number(event.currentTarget.value))}>
              {plans.map((plan, index) => (
                <option key={`${plan.device} ${plan.os}`} value={index}>
                  {plan.device}, {plan.os}
                </option>
              ))}
            </select>
          </label>
          <label class="menu">
            <span>Units</span>
            <select value={setting} onChange={(event) => chooseSetting(event.currentTarget.value as Setting)}>
              {placement.plan.settings.map((one) => (
                <option key={one.compute_units} value={one.compute_units}>
                  {SETTING_NAMES[one.compute_units]}
                </option>
              ))}
            </select>
          </label>
        </div>
      )}
      <ThemeSwitch />
    </div>
  );
}
