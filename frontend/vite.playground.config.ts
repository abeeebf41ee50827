import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

/** The page that opens dropped models: one classic script, which is also that of its layout worker, and one style sheet. */
export default defineConfig({
  build: {
    target: "es2022",
    cssCodeSplit: false,
    assetsInlineLimit: Number.MAX_SAFE_INTEGER,
    modulePreload: false,
    rolldownOptions: {
      input: fileURLToPath(new URL("playground/main.tsx", import.meta.url)),
      output: { format: "iife", entryFileNames: "playground.js", assetFileNames: "playground[extname]" },
    },
  },
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
});
