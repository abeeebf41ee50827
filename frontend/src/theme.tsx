import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import { onPrint } from "./ui/print";

type Theme = "auto" | "light" | "dark";
const KEY = "coremlscope-theme";
const NEXT: Record<Theme, Theme> = { auto: "light", light: "dark", dark: "auto" };
const WORDS: Record<Theme, string> = { auto: "System", light: "Light", dark: "Dark" };

/** Switches the theme, by default that of the system. The choice is stored where the browser permits it. */
export function ThemeSwitch() {
  const [theme, setTheme] = useState<Theme>(stored);
  useLayoutEffect(() => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    store(theme);
  }, [theme]);
  return (
    <button
      type="button"
      class="quiet theme-switch"
      aria-label={`Theme: ${WORDS[theme]}. Change to ${WORDS[NEXT[theme]]}`}
      onClick={() => setTheme(NEXT[theme])}
    >
      <span aria-hidden="true">{theme === "dark" ? "☾" : theme === "light" ? "☀" : "◐"}</span>{" "}
      <span class="theme-word">{WORDS[theme]}</span>
    </button>
  );
}

function stored(): Theme {
  try {
    const value = localStorage.getItem(KEY);
    return value === "light" || value === "dark" ? value : "auto";
  } catch {
    return "auto"; // a page opened from a file may have no storage
  }
}

function store(theme: Theme): void {
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // the choice is not stored then
  }
}

/** A number that changes with the colours of the page, which print has its own of. */
export function useTheme(): number {
  const [version, setVersion] = useState(0);
  useEffect(() => {
    const changed = () => setVersion((old) => old + 1);
    const observer = new MutationObserver(changed);
    observer.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    const system = matchMedia("(prefers-color-scheme: dark)");
    system.addEventListener("change", changed);
    const forget = onPrint(changed);
    return () => {
      observer.disconnect();
      system.removeEventListener("change", changed);
      forget();
    };
  }, []);
  return version;
}
