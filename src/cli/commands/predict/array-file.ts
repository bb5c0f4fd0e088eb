/** Converts a file for an array field. */

import { listsOfNpy } from "../../../base/npy.ts";
import { dataUriOf } from "./input-file.ts";

/**
 * Converts by type: a .json file to its lists, a NumPy file to lists, any other file to a data URI of its bytes as
 * elements.
 * @throws for broken JSON, or an unreadable NumPy file
 */
export function arrayOf(bytes: Uint8Array, path: string): unknown {
  if (/\.json$/i.test(path)) return JSON.parse(new TextDecoder().decode(bytes));
  return listsOfNpy(bytes) ?? dataUriOf(bytes, path);
}
