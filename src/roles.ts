/** What processes of this program do that it starts itself, by the names seen in `ps`. */
import type { Roles } from "./processes/link.ts";

export const roles: Roles = {};
