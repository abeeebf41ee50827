import { options } from "preact";

/**
 * Calls back before the page is laid out for print, when its colours are those of print, and when that ends. What it sets is rendered at
 * once: print does not wait.
 */
export function onPrint(change: (isPrinting: boolean) => void): () => void {
  const media = matchMedia("print");
  const set = (isPrinting: boolean) => {
    const { debounceRendering } = options;
    options.debounceRendering = (render) => render();
    change(isPrinting);
    if (debounceRendering) options.debounceRendering = debounceRendering;
    else delete options.debounceRendering;
  };
  const events: [EventTarget, string, () => void][] = [
    [window, "beforeprint", () => set(true)],
    [window, "afterprint", () => set(false)],
    [media, "change", () => set(media.matches)],
  ];
  for (const [target, name, listen] of events) target.addEventListener(name, listen);
  return () => {
    for (const [target, name, listen] of events) target.removeEventListener(name, listen);
  };
}
