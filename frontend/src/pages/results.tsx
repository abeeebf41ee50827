import { useMemo, useState } from "preact/hooks";
import { choices, costsOf, EVERYTHING, matching, sameTexts, textNames, timesOf, type Wanted } from "../data/results";
import type { ResultsForm } from "../data/schema";
import { plural } from "../format";
import { Menu } from "../ui/menu";
import { TopBar } from "../ui/topbar";
import { Leaderboard } from "../views/results/leaderboard";
import { Pareto } from "../views/results/pareto";

/** The page of results of sweeps: the rows of a query, in all views those that the filter leaves. */
export function ResultsPage(props: { result: ResultsForm }) {
  const { result } = props;
  const [wanted, setWanted] = useState(EVERYTHING);
  const rows = useMemo(() => matching(result, wanted), [result, wanted]);
  const same = useMemo(() => sameTexts(result), [result]);
  const canCompare = timesOf(result).length > 0 && costsOf(result).length > 0;
  const parts = [
    { id: "leaderboard", title: "Leaderboard", isShown: true },
    { id: "pareto", title: "Pareto", isShown: canCompare },
  ].filter((part) => part.isShown);
  return (
    <>
      <TopBar brand="Sweep" parts={parts} />
      <main>
        <header class="report-head" id="top">
          <h1>{plural(result.rows, "result")}</h1>
          {same.length > 0 && (
            <p class="lead">In all of them: {same.map(([column, text]) => `${column.name.replaceAll("_", " ")} ${text}`).join(" · ")}</p>
          )}
        </header>
        <Filters table={result} wanted={wanted} onChange={setWanted} shown={rows.length} />
        <Leaderboard table={result} rows={rows} />
        {canCompare && <Pareto table={result} rows={rows} />}
      </main>
    </>
  );
}

function Filters(props: { table: ResultsForm; wanted: Wanted; onChange: (wanted: Wanted) => void; shown: number }) {
  const { table, wanted, onChange } = props;
  const columns = useMemo(() => choices(table), [table]);
  return (
    <search class="filters" aria-label="Filter results">
      <input
        type="search"
        placeholder="Search model, device, label"
        aria-label="Search results"
        value={wanted.text}
        onInput={(event) => onChange({ ...wanted, text: event.currentTarget.value })}
      />
      {columns.map((column) => (
        <Menu
          key={column.name}
          label={column.name.replace(/^labels\./, "").replaceAll("_", " ")}
          value={wanted.chosen[column.name] ?? ""}
          onChange={(value) => onChange({ ...wanted, chosen: { ...wanted.chosen, [column.name]: value } })}
          options={[...textNames(column)]}
        />
      ))}
      {props.shown < table.rows && (
        <>
          <button type="button" class="quiet" onClick={() => onChange(EVERYTHING)}>
            Clear
          </button>
          <span class="dim" role="status">
            {props.shown} of {plural(table.rows, "result")}
          </span>
        </>
      )}
    </search>
  );
}
