import { shortNames } from "../format";
import { measurementName, totalMs } from "./profile";
import type { Origin, Profile } from "./schema";
import { SETTING_NAMES } from "./words";

/** A kind of time in a list of profiles: a measurement, or a device under one setting. */
export interface TimeColumn {
  key: string;
  origin: Origin;
  /** The measurement or the device. */
  title: string;
  /** The setting; empty for measurements. */
  setting: string;
  /** By index of the profile. */
  seconds: (number | null)[];
  /** The interval of each time, where it has one. */
  intervals: (Interval | null)[];
}

interface Interval {
  low: number;
  high: number;
  /** Whether no latency of the chip went into the estimate. */
  isExtrapolated: boolean;
}

/** The times of every profile: medians of predictions, estimates, and planned costs of devices without estimates. */
export function timeColumns(profiles: readonly Profile[]): TimeColumn[] {
  const columns = new Map<string, TimeColumn>();
  const add = (index: number, origin: Origin, title: string, setting: string, seconds: number | null, interval: Interval | null = null) => {
    const key = [origin, title, setting].join("\n");
    const column = columns.get(key) ?? {
      ...{ key, origin, title, setting },
      seconds: profiles.map(() => null),
      intervals: profiles.map(() => null),
    };
    columns.set(key, column);
    column.seconds[index] = seconds;
    column.intervals[index] = interval;
  };
  profiles.forEach((profile, index) => {
    for (const one of profile.measurements)
      if (one.predict) add(index, "measured", measurementName(profile.measurements, one), "", one.predict.statistics.median);
  });
  const estimated = new Set<string>();
  profiles.forEach((profile, index) => {
    for (const one of profile.estimates) {
      const device = `${one.device}, ${one.os}`;
      estimated.add(device);
      const { value, low, high } = one.latency;
      const interval = { low, high, isExtrapolated: !one.own && one.basis === "extrapolated" };
      add(index, "estimated", device, SETTING_NAMES[one.compute_units], value, interval);
    }
  });
  profiles.forEach((profile, index) => {
    for (const plan of profile.plans) {
      const device = `${plan.device}, ${plan.os}`;
      if (estimated.has(device)) continue;
      for (const setting of plan.settings) {
        const total = totalMs(plan, setting);
        add(index, "planned", device, SETTING_NAMES[setting.compute_units], total === null ? null : total / 1e3);
      }
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
