/** What an array field is given for the content of a file. */
import { dataUriOf } from "./input-file.ts";

/**
 * The lists of a JSON file, which its ending tells; of any other file a data URI of its bytes, which are those of the elements.
 * @throws for JSON that is broken
 */
export function arrayOf(bytes: Uint8Array, path: string): unknown {
  return /\.json$/i.test(path) ? JSON.parse(new TextDecoder().decode(bytes)) : dataUriOf(bytes, path);
}
