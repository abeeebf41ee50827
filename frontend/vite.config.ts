import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

/** One classic script and one style sheet, without hashes in their names: Python inlines both into every page. */
export default defineConfig({
  build: {
    outDir: fileURLToPath(new URL("../src/coremlscope/reports/bundle", import.meta.url)),
    emptyOutDir: true,
    target: "es2022",
    cssCodeSplit: false,
    assetsInlineLimit: Number.MAX_SAFE_INTEGER,
    modulePreload: false,
    rolldownOptions: {
      input: fileURLToPath(new URL("src/main.tsx", import.meta.url)),
      output: { format: "iife", entryFileNames: "report.js", assetFileNames: "report[extname]" },
    },
  },
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
});
