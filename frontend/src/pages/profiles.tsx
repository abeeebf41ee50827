import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import { openedBy, profileNames } from "../data/overview";
import type { ProfileForm, ProfilesForm } from "../data/schema";
import { plural } from "../format";
import { TopBar } from "../ui/topbar";
import { Overview } from "../views/overview";
import { ReportPage } from "./report";

/** The page of a list of profiles: a table of them, and the report of the one that is open. */
export function ProfilesPage(props: { result: ProfilesForm }) {
  const { profiles } = props.result;
  return (
    <Opened profiles={profiles}>
      <TopBar brand="Models" home="#profiles" />
      <main>
        <header class="report-head" id="top">
          <h1>{plural(profiles.length, "model")}</h1>
        </header>
        <Overview profiles={profiles} names={profileNames(profiles)} />
      </main>
    </Opened>
  );
}

/** The report of the profile that is open; otherwise the page that lists all. */
export function Opened(props: { profiles: readonly ProfileForm[]; children: ComponentChildren }) {
  const open = useOpened();
  const profile = open === null ? undefined : props.profiles[open];
  useLayoutEffect(() => {
    if (open !== null) scrollTo(0, 0);
  }, [open]);
  if (!profile) return <>{props.children}</>;
  const back = (
    <a class="back" href="#profiles">
      ← All models
    </a>
  );
  return <ReportPage key={open} result={profile} back={back} />;
}

/** The index of the open profile, as the address says; null for the list. */
function useOpened(): number | null {
  const [open, set] = useState<number | null>(() => openedBy(location.hash) ?? null);
  useEffect(() => {
    const change = () => {
      const wanted = openedBy(location.hash);
      if (wanted !== undefined) set(wanted);
    };
    addEventListener("hashchange", change);
    return () => removeEventListener("hashchange", change);
  }, []);
  return open;
}
