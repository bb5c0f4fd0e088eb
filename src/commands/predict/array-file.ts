/** What an array field is given for the content of a file. */

import { dataUriOf } from "./input-file.ts";
import { parseNpy } from "./npy.ts";

/**
 * The lists of a JSON file, which its ending tells; of a NumPy file a data URI that says dtype and sizes; of any other file one of its
 * bytes, which are those of the elements.
 * @throws for JSON that is broken, and for a NumPy file whose bytes are not those that go over the wire
 */
export function arrayOf(bytes: Uint8Array, path: string): unknown {
  if (/\.json$/i.test(path)) return JSON.parse(new TextDecoder().decode(bytes));
  const npy = parseNpy(bytes);
  if (npy === undefined) return dataUriOf(bytes, path);
  // Without dimensions there are no sizes to say.
  const sizes = npy.shape.length > 0 ? `;shape=${npy.shape.join("x")}` : "";
  return `data:application/octet-stream;dtype=${npy.dtype}${sizes};base64,${npy.data.toBase64()}`;
}
