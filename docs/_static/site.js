// A button on each block of commands that copies them, without their comments; names of the theme's parts, for readers; and
// a place among the stops of the keyboard for what scrolls sideways.
const PARTS = { ".sidebar-drawer": "Pages", ".toc-drawer": "Parts of this page", ".content-icon-container": "Source and theme" };
function stopAtScrolled() {
  for (const part of document.querySelectorAll(".highlight pre, .table-wrapper"))
    if (part.scrollWidth > part.clientWidth) part.tabIndex = 0;
    else part.removeAttribute("tabindex");
}
addEventListener("resize", stopAtScrolled);
addEventListener("load", stopAtScrolled);
addEventListener("DOMContentLoaded", () => {
  for (const [part, name] of Object.entries(PARTS)) document.querySelector(part)?.setAttribute("aria-label", name);
  document.querySelector(".content-icon-container")?.setAttribute("role", "region");
  for (const block of document.querySelectorAll(".highlight-sh")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy-line";
    button.textContent = "Copy";
    button.addEventListener("click", async () => {
      const lines = block.querySelector("pre").textContent.replace(/\s+# .*$/gm, "").trim();
      await navigator.clipboard.writeText(lines);
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy"), 1500);
    });
    block.append(button);
  }
});
