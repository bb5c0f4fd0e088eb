/** Reads audio files with the decoders that docs/declare.md recommends. */
import { Audio, audio, z } from "../../src/index.ts";
import { failure } from "./failure.ts";
import { decoders } from "./sounds.ts";

export const audioOf = (bytes: Uint8Array) => new Audio({ bytes, mediaType: "audio/wav" }, { decoders });

/** Reads a file that must be refused, as the input of this field. @returns "code: message" */
export function audioFault(bytes: Uint8Array, field = audio({ decoders })): Promise<string> {
  const decoded = z.decode(field, "https://example.com/a");
  decoded.fill({ bytes, mediaType: "audio/wav" });
  return failure(decoded.samples());
}
