/** The kinds of child processes, by their names in `ps`. */

import type { Roles } from "../machine/processes/link.ts";
import type { ModelSource } from "../package/model-source.ts";

/** The code of each kind of child process. @param source finds models and libraries */
export function rolesFor(source: ModelSource): Roles {
  return {
    engine: async (start, link) => (await import("./engine-process.ts")).runEngine(source, start, link),
    front: async (start, link) => (await import("./front-process.ts")).runFront(source, start, link),
  };
}
