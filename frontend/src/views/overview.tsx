import { useMemo, useState } from "preact/hooks";
import { type TimeColumn, timeColumns } from "../data/overview";
import { findingsOf } from "../data/profile";
import type { Profile } from "../data/schema";
import { kindName, SETTING_NAMES } from "../data/words";
import { count, duration, plural } from "../format";
import { FileTitle } from "../ui/file";
import { OriginTag } from "../ui/origin";
import { ScrollRegion } from "../ui/scroll";
import { Section } from "../ui/section";

/** The profiles of a list, one row each, with their times. A heading sorts by its column. */
export function Overview(props: { profiles: readonly Profile[]; names: readonly string[] }) {
  const { profiles, names } = props;
  const columns = useMemo(() => timeColumns(profiles), [profiles]);
  const [sort, setSort] = useState<{ key: string; descending: boolean } | null>(null);
  const column = columns.find((one) => one.key === sort?.key);
  const order = useMemo(() => arranged(profiles.length, column, sort?.descending ?? true), [profiles, column, sort]);
  const press = (key: string) => {
    if (sort?.key !== key) setSort({ key, descending: true });
    else setSort(sort.descending ? { key, descending: false } : null);
  };
  return (
    <Section
      id="profiles"
      title="Times of predictions"
      note={[...new Set(columns.map((one) => one.origin))].map((origin) => <OriginTag key={origin} origin={origin} />)}
    >
      <ScrollRegion label="Models and their times">
        <table class="plain overview">
          <thead>
            <tr>
              <th scope="col">Model</th>
              <th scope="col">Kind</th>
              <th scope="col" class="number">
                Operations
              </th>
              <th scope="col" class="number">
                Parameters
              </th>
              {columns.map((one) => (
                <Heading key={one.key} column={one} sort={sort} onPress={press} />
              ))}
            </tr>
          </thead>
          <tbody>
            {order.map((index) => {
              const profile = profiles[index];
              return profile && <ProfileRow key={index} index={index} name={names[index] ?? ""} profile={profile} columns={columns} />;
            })}
          </tbody>
        </table>
      </ScrollRegion>
      {columns.some((one) => one.estimates.some((estimate) => estimate)) && (
        <p class="dim caption">
          Below estimates: the interval that holds 80 % of the cases, and the fastest other setting. * extrapolated from the chip's
          specification.
        </p>
      )}
    </Section>
  );
}

/** Indices in the order of the list, or by a column; unknown values are last. */
function arranged(length: number, column: TimeColumn | undefined, isDescending: boolean): number[] {
  const indices = Array.from({ length }, (_, index) => index);
  if (!column) return indices;
  const sign = isDescending ? -1 : 1;
  return indices.sort((a, b) => {
    const [first, second] = [column.seconds[a] ?? null, column.seconds[b] ?? null];
    if (first === null || second === null) return Number(first === null) - Number(second === null) || a - b;
    return sign * (first - second) || a - b;
  });
}

function Heading(props: { column: TimeColumn; sort: { key: string; descending: boolean } | null; onPress: (key: string) => void }) {
  const { column, sort } = props;
  const isSorted = sort?.key === column.key;
  const direction = isSorted ? (sort.descending ? "descending" : "ascending") : "none";
  return (
    <th scope="col" class="number" aria-sort={direction}>
      <button type="button" class="heading" onClick={() => props.onPress(column.key)}>
        {column.title}
        <span class="arrow" aria-hidden="true">
          {isSorted ? (sort.descending ? "↓" : "↑") : ""}
        </span>
      </button>
      <div>
        {column.setting && <span class="faint">{column.setting} </span>}
        <OriginTag origin={column.origin} />
      </div>
    </th>
  );
}

function ProfileRow(props: { index: number; name: string; profile: Profile; columns: readonly TimeColumn[] }) {
  const { index, name, profile, columns } = props;
  const { model } = profile;
  const findings = findingsOf(profile);
  const error = findings.find((one) => one.severity === "error");
  const warnings = findings.filter((one) => one.severity === "warning").length;
  const isPart = error !== undefined && model.kind !== "";
  return (
    <>
      <tr class={isPart ? "with-note" : ""}>
        <th scope="row" class="label" rowSpan={isPart ? 2 : 1}>
          <a href={`#profile-${index}`} title={model.path}>
            <FileTitle name={name} />
          </a>
          {warnings > 0 && <div class="faint">{plural(warnings, "warning")}</div>}
        </th>
        {error && !model.kind ? (
          <td class="row-error" colSpan={3 + columns.length}>
            {error.text}
          </td>
        ) : (
          <Cells index={index} profile={profile} columns={columns} />
        )}
      </tr>
      {isPart && (
        <tr>
          <td class="row-error" colSpan={3 + columns.length}>
            {error.text}
          </td>
        </tr>
      )}
    </>
  );
}

function Cells(props: { index: number; profile: Profile; columns: readonly TimeColumn[] }) {
  const { index, profile, columns } = props;
  const { model } = profile;
  return (
    <>
      <td class="kind">{kindName(model.kind)}</td>
      <td class="number">{profile.ops.id.length || ""}</td>
      <td class="number">{model.parameters ? count(model.parameters) : ""}</td>
      {columns.map((column) => {
        const seconds = column.seconds[index] ?? null;
        const estimate = column.estimates[index];
        return (
          <td key={column.key} class="number">
            <span class="nowrap">{seconds === null ? "–" : duration(seconds)}</span>
            {estimate && (
              <>
                <div
                  class="faint nowrap"
                  title={`80 % interval${estimate.isExtrapolated ? "; extrapolated from the chip's specification" : ""}`}
                >
                  {duration(estimate.latency.low)} – {duration(estimate.latency.high)}
                  {estimate.isExtrapolated && " *"}
                </div>
                {estimate.faster && (
                  <div class="faint nowrap">
                    {SETTING_NAMES[estimate.faster.compute_units]} <b>{duration(estimate.faster.latency.value)}</b>
                  </div>
                )}
              </>
            )}
          </td>
        );
      })}
    </>
  );
}
