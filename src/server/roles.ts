/** What processes of this program do that it starts itself, by the names seen in `ps`. */

import type { Roles } from "../machine/processes/link.ts";
import type { ModelSource } from "../package/model-source.ts";

/** @param sourceOf where a command line says that models and libraries are */
export function rolesFor(sourceOf: (argv: readonly string[]) => ModelSource): Roles {
  return {
    engine: async (start, link) => (await import("./engine-process.ts")).engineRole(sourceOf)(start, link),
    front: async (start, link) => (await import("./front-process.ts")).frontRole(sourceOf)(start, link),
  };
}
