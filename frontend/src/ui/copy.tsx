import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";

/** Copies a text and confirms it for a moment. */
export function CopyButton(props: { text: () => string; label: string; children?: ComponentChildren }) {
  const [done, setDone] = useState<"" | "Copied" | "Failed">("");
  useEffect(() => {
    if (!done) return undefined;
    const timer = setTimeout(() => setDone(""), 1500);
    return () => clearTimeout(timer);
  }, [done]);
  return (
    <button
      type="button"
      class="quiet copy"
      aria-label={props.label}
      title={props.label}
      onClick={() => void copy(props.text()).then((worked) => setDone(worked ? "Copied" : "Failed"))}
    >
      <span aria-live="polite">{done || (props.children ?? "Copy")}</span>
    </button>
  );
}

/** Some browsers provide no clipboard to pages opened from a file: the fallback copies a selection. */
async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    const worked = document.execCommand("copy");
    area.remove();
    return worked;
  }
}
