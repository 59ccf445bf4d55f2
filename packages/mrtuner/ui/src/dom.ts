/** Create elements. Text is always set as text, so names and statements are never read as HTML. */

type Child = Node | string | null;
type Attributes = Record<string, string | boolean | ((event: Event) => void)>;

export function make<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, given] of Object.entries(attributes)) {
    if (typeof given === "function") element.addEventListener(name, given);
    else if (given === true) element.setAttribute(name, "");
    else if (given !== false) element.setAttribute(name, given);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

/** A select with its label; `then` gets the value that the user chooses. */
export function choice(
  label: string, options: [string, string][], chosen: string, then: (value: string) => void,
): HTMLElement {
  const select = make(
    "select",
    { change: () => then(select.value) },
    ...options.map(([name, words]) => make("option", { value: name, selected: name === chosen }, words)),
  );
  return make("label", {}, make("span", {}, label), select);
}
