/** Addresses of the documentation, as in `coremlscope/base/site.py`. */

export const SITE = "https://coremlscope.github.io/coremlscope/";

/** The page of a placement rule; empty for other reasons, and for what cannot be an id, as in a file from elsewhere. */
export function rulePage(id: string): string {
  return /^(ne|gpu|cpu)(-[a-z0-9]+)+$/.test(id) ? `${SITE}rules/${id}/` : "";
}

/** The page of a finding; one about a placement rule has the rule's id. */
export function findingPage(id: string): string {
  return rulePage(id) || (/^[a-z0-9]+(-[a-z0-9]+)*$/.test(id) ? `${SITE}findings/${id}/` : "");
}
