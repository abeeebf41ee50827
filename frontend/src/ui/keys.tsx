import { useEffect, useRef } from "preact/hooks";

const KEYS = [
  ["/", "find in the graph"],
  ["↑ ↓ ← →", "walk through layers, the graph and lanes"],
  ["+ − 0", "zoom the graph and lanes in and out, and show everything"],
  ["Escape", "close the operation, or drop the selection"],
  ["?", "these keys"],
];

/** The keys of the page, which `?` lists. */
export function Keys() {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      const isTyped = event.target instanceof HTMLElement && event.target.matches("input, select, textarea");
      if (event.key === "?" && !isTyped) ref.current?.showModal();
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, []);
  return (
    <dialog ref={ref} class="keys" aria-label="Keys">
      <dl class="keys-list">
        {KEYS.map(([key, text]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
      <button type="button" class="quiet" onClick={() => ref.current?.close()}>
        Close
      </button>
    </dialog>
  );
}
