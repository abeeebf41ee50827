import { shortNames } from "../format";
import { measurementName, targetsOf } from "./profile";
import type { Estimate, Origin, Profile } from "./schema";
import { SETTING_NAMES } from "./words";

/** A kind of time in a list of profiles: a measurement, or a device under the setting that was asked for. */
export interface TimeColumn {
  key: string;
  origin: Origin;
  /** The measurement or the device. */
  title: string;
  /** The setting; empty for measurements. */
  setting: string;
  /** By index of the profile. */
  seconds: (number | null)[];
  /** The estimate of each time. */
  estimates: (DeviceEstimate | null)[];
}

interface DeviceEstimate extends Pick<Estimate, "latency"> {
  /** Whether no latency of the chip went into it. */
  isExtrapolated: boolean;
  /** The fastest of the other settings, where that is faster. */
  faster: Estimate | null;
}

/** The times of every profile: medians of predictions, and estimates for devices. */
export function timeColumns(profiles: readonly Profile[]): TimeColumn[] {
  const columns = new Map<string, TimeColumn>();
  const add = (index: number, origin: Origin, title: string, setting: string, seconds: number, estimate: DeviceEstimate | null = null) => {
    const key = [origin, title, setting].join("\n");
    const column = columns.get(key) ?? {
      ...{ key, origin, title, setting },
      seconds: profiles.map(() => null),
      estimates: profiles.map(() => null),
    };
    columns.set(key, column);
    column.seconds[index] = seconds;
    column.estimates[index] = estimate;
  };
  profiles.forEach((profile, index) => {
    for (const one of profile.measurements)
      if (one.predict) add(index, "measured", measurementName(profile.measurements, one), "", one.predict.statistics.median);
  });
  profiles.forEach((profile, index) => {
    for (const { estimates, device, os } of targetsOf({ plans: [], estimates: profile.estimates })) {
      const [first, ...others] = [...estimates.values()];
      if (!first) continue;
      const isExtrapolated = !first.own && first.basis === "extrapolated";
      const faster = others.reduce((best, one) => (one.latency.value < best.latency.value ? one : best), first);
      const estimate = { latency: first.latency, isExtrapolated, faster: faster === first ? null : faster };
      add(index, "estimated", `${device}, ${os}`, SETTING_NAMES[first.compute_units], first.latency.value, estimate);
    }
  });
  return [...columns.values()];
}

/** What profiles are called: the shortest ends of their paths that tell them apart. */
export const profileNames = (profiles: readonly Profile[]): string[] => shortNames(profiles.map((profile) => profile.model.path));

/** The index that an address opens: 3 for `#profile-3`; null for the list; undefined for places within what is open. */
export function openedBy(hash: string): number | null | undefined {
  if (hash === "" || hash === "#" || hash === "#profiles") return null;
  const found = /^#profile-(\d+)$/.exec(hash);
  return found ? Number(found[1]) : undefined;
}
