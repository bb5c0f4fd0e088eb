/** The kinds of child processes, by their names in `ps`. */

import type { Roles } from "../machine/processes/link.ts";
import type { ModelSource } from "../package/model-source.ts";

/**
 * The code of each kind of child process. @param sourceOf returns the model store and libraries that a command line
 * names
 */
export function rolesFor(sourceOf: (argv: readonly string[]) => ModelSource): Roles {
  return {
    engine: async (start, link) => (await import("./engine-process.ts")).engineRole(sourceOf)(start, link),
    front: async (start, link) => (await import("./front-process.ts")).frontRole(sourceOf)(start, link),
  };
}
