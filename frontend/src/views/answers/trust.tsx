import { useReport } from "../../report";

/** How far to believe the answer, in a line: how good such estimates were; below it the doubts that the sentence leaves out. */
export function Trust() {
  const { answer, estimate } = useReport();
  const { doubts = [], accuracy = "" } = answer?.trust ?? {};
  const others = answer?.latency ? doubts.slice(1).map((one) => `${one}.`) : [];
  const [first, ...more] = [accuracy, ...others, ...(estimate?.notes ?? [])].filter(Boolean);
  if (!first) return null;
  if (more.length === 0) return <p class="trust sentence">{first}</p>;
  return (
    <details class="trust">
      <summary class="sentence">{first}</summary>
      {more.map((one) => (
        <p class="sentence" key={one}>
          {one}
        </p>
      ))}
    </details>
  );
}
