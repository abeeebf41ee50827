import { type ComponentChildren, createContext } from "preact";
import { useContext } from "preact/hooks";
import { ThemeSwitch } from "../theme";

/** What can be done with what is open, next to its name; null where the page is a file. */
export const BarActions = createContext<ComponentChildren>(null);

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
  const actions = useContext(BarActions);
  return (
    <header class="topbar">
      <a class="skip" href="#top">
        Skip to the content
      </a>
      {props.back}
      <a class="brand" href={props.home ?? "#top"} title={props.title}>
        {props.brand}
      </a>
      {actions}
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
