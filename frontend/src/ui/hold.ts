/** Frames for which the position is held: charts take their new size one frame after their container. */
const FRAMES = 4;

/** Keeps the section in the middle of the screen where it is while the page around it takes another width. */
export function holdPosition(): void {
  const held = document.elementFromPoint(40, innerHeight / 2)?.closest(".section, .report-head");
  if (!held) return;
  const { top } = held.getBoundingClientRect();
  let frame = 0;
  const correct = () => {
    const moved = held.getBoundingClientRect().top - top;
    if (Math.abs(moved) >= 1) scrollBy({ top: moved, behavior: "instant" });
    if (++frame < FRAMES) requestAnimationFrame(correct);
  };
  requestAnimationFrame(correct);
}
