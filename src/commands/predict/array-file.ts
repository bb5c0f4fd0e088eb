/** What an array field is given for the content of a file. */

import { listsOfNpy } from "../../npy.ts";
import { dataUriOf } from "./input-file.ts";

/**
 * The lists of a JSON file, which its ending tells, and those of a NumPy file; of any other file a data URI of its bytes, which are those of the
 * elements.
 * @throws for JSON that is broken, and for a NumPy file that cannot be read
 */
export function arrayOf(bytes: Uint8Array, path: string): unknown {
  if (/\.json$/i.test(path)) return JSON.parse(new TextDecoder().decode(bytes));
  return listsOfNpy(bytes) ?? dataUriOf(bytes, path);
}
