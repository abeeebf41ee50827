import type { ComponentChildren } from "preact";
import { ThemeSwitch } from "../theme";

/** The bar that stays in view: what the page is, links to its parts, its menus, and the choice of the theme. */
export function TopBar(props: {
  brand: string;
  /** The longer form of the brand. */
  title?: string;
  /** The target of the brand. */
  home?: string;
  parts?: readonly { id: string; title: string }[];
  /** A link to the page that this one was opened from. */
  back?: ComponentChildren;
  /** Menus. */
  children?: ComponentChildren;
}) {
  const { parts = [] } = props;
  return (
    <header class="topbar">
      {props.back}
      <a class="brand" href={props.home ?? "#top"} title={props.title}>
        {props.brand}
      </a>
      {parts.length > 0 && (
        <nav aria-label="Parts of the page">
          {parts.map((part) => (
            <a key={part.id} href={`#${part.id}`}>
              {part.title}
            </a>
          ))}
        </nav>
      )}
      {props.children}
      <ThemeSwitch />
    </header>
  );
}
